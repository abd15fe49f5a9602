"""Helm works against `nodeless local`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.control_plane.binaries import MODULES, build
from tools.world import World

HELM = {"helm": "helm.sh/helm/v3/cmd/helm"}


def test_helm_installs_tests_and_uninstalls(nodeless: Path, tmp_path: Path, session_logs: Path) -> None:
    helm = build(MODULES / "helm", HELM)["helm"]
    with World(nodeless, "helm", tmp_path, session_logs, "--with-nodepool", "--speed", "20") as world:
        play(Helm(helm, world, tmp_path), world)


class Helm:
    """The command, with a home directory of its own."""

    def __init__(self, binary: Path, world: World, home: Path) -> None:
        self._command = [binary, "--kubeconfig", world.kubeconfig]
        self._home = home

    def __call__(self, *arguments: str) -> str:
        environment = {"HOME": str(self._home), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([*self._command, *arguments], cwd=self._home, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout


def play(run: Helm, world: World) -> None:
    # Helm's own example: a Deployment, a Service, a ServiceAccount and the pod of a test.
    run("create", "web")
    installed = run("install", "web", "web", "--set", "resources.requests.cpu=500m", "--set", "autoscaling.enabled=true", "--wait", "--timeout", "2m")
    assert "STATUS: deployed" in installed
    assert world.items("horizontalpodautoscalers")
    assert "Succeeded" in run("test", "web", "--timeout", "2m")
    assert "REVISION: 2" in run("upgrade", "web", "web", "--set", "ingress.enabled=true")
    assert world.items("ingresses")
    run("uninstall", "web", "--wait")
    assert not world.items("deployments")
