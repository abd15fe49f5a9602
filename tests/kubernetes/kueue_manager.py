"""Kueue beside a control plane: its manifests and its controller manager, both from its Go module.

The manager runs as a process of this machine with the token of its own ServiceAccount, so its rights are those of its manifests. The API
server reaches its webhooks through a Service of type ExternalName, because there is no Service network."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tools.control_plane.binaries import MODULES, build, go_environment
from tools.control_plane.server import ControlPlane, kubeconfig
from tools.processes import Process, free_port, wait_for

MODULE = "sigs.k8s.io/kueue"
PROGRAMS = {"kueue": f"{MODULE}/cmd/kueue"}
NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
SERVICE, SECRET, CONFIG = "kueue-webhook-service", "kueue-webhook-server-cert", "kueue-manager-config"
# The manager is a process here, and nothing serves its metrics and its API for pending workloads.
LEFT_OUT = ("Deployment", "APIService", "ConfigMap")
KINDS = "jobs,workloads,provisioningrequests,localqueues,clusterqueues,resourceflavors,admissionchecks,provisioningrequestconfigs"


class Kueue:
    """Kueue, installed and running. Use as a context manager; at the end its objects, webhooks and definitions are deleted."""

    def __init__(self, plane: ControlPlane, directory: Path, logs: Path) -> None:
        self._plane, self._directory, self._logs = plane, directory, logs
        self._program = build(MODULES / "kueue", PROGRAMS)["kueue"]
        self._port, self._health = free_port(), free_port()
        self._stack = ExitStack()

    def __enter__(self) -> Kueue:
        found = manifests()
        with ExitStack() as started:
            started.callback(self._remove, found)
            self._install(found)
            process = started.enter_context(self._process(found))
            self._mount_certificate()
            process.wait_until_answers(f"http://127.0.0.1:{self._health}/readyz", 120)
            # The rest of the stack is unwound in the opposite order: objects go while their webhooks still answer.
            started.callback(self._delete_objects)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _install(self, found: list[dict[str, Any]]) -> None:
        for item in found:
            if item["kind"] not in LEFT_OUT:
                self._plane.apply(self._reachable(item))

    def _reachable(self, item: dict[str, Any]) -> dict[str, Any]:
        """The object, with webhooks that the API server can reach."""
        if item["kind"] == "Service" and item["metadata"]["name"] == SERVICE:
            return item | {"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self._port}]}}
        hooks = [hook["clientConfig"] for hook in item.get("webhooks", ())]
        if item.get("spec", {}).get("conversion", {}).get("strategy") == "Webhook":
            hooks.append(item["spec"]["conversion"]["webhook"]["clientConfig"])
        for hook in hooks:
            hook["service"]["port"] = self._port
        return item

    def _process(self, found: list[dict[str, Any]]) -> Process:
        (data,) = (item["data"] for item in found if item["kind"] == "ConfigMap" and item["metadata"]["name"] == CONFIG)
        settings = yaml.safe_load(data["controller_manager_config.yaml"])
        settings["health"] = {"healthProbeBindAddress": f"127.0.0.1:{self._health}"}
        settings["metrics"] = {"bindAddress": "0"}
        settings["webhook"] = {"port": self._port, "certDir": str(self._certificates)}
        # It would need the namespace of a pod.
        settings["leaderElection"] = {"leaderElect": False}
        config, identity = self._directory / "kueue.yaml", self._directory / "kueue.kubeconfig"
        config.write_text(yaml.safe_dump(settings))
        identity.touch(mode=0o600)
        identity.write_text(json.dumps(self._identity()))
        command = [self._program, f"--config={config}", "--feature-gates=VisibilityOnDemand=false"]
        return Process("kueue", command, self._logs, os.environ | {"KUBECONFIG": str(identity)})

    def _identity(self) -> dict[str, object]:
        token = self._plane.kubectl("create", "token", ACCOUNT, f"--namespace={NAMESPACE}", "--duration=4h").strip()
        found = kubeconfig(self._plane.url, self._plane.authority.pair, self._plane.authority.pair)
        return found | {"users": [{"name": "tests", "user": {"token": token}}]}

    @property
    def _certificates(self) -> Path:
        folder = self._directory / "certificates"
        folder.mkdir(exist_ok=True)
        return folder

    def _mount_certificate(self) -> None:
        """What the kubelet does with the Secret, which the manager creates: it mounts its keys as files."""

        def created() -> dict[str, str]:
            answer = self._plane.kubectl("get", "secret", SECRET, f"--namespace={NAMESPACE}", "-o", "json", check=False)
            return json.loads(answer).get("data", {}) if answer else {}

        for key, value in wait_for("the certificate of Kueue's webhooks", created, 120).items():
            (self._certificates / key).write_bytes(base64.b64decode(value))

    def _delete_objects(self) -> None:
        self._plane.kubectl("delete", KINDS, "--all", "--all-namespaces", "--timeout=2m")

    def _remove(self, found: list[dict[str, Any]]) -> None:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            self._plane.kubectl("delete", kind, "--selector=app.kubernetes.io/name=kueue", "--ignore-not-found")
        names = [item["metadata"]["name"] for item in found if item["kind"] == "CustomResourceDefinition"]
        self._plane.kubectl("delete", "customresourcedefinitions", *names, "--ignore-not-found", "--timeout=2m")


def manifests() -> list[dict[str, Any]]:
    """What Kueue's installation applies."""
    folder = MODULES / "kueue"
    command = ["go", "mod", "download", "-json", MODULE]
    module = json.loads(subprocess.run(command, cwd=folder, env=go_environment("local"), stdout=subprocess.PIPE, text=True, check=True).stdout)
    rendered = subprocess.run(["kubectl", "kustomize", f"{module['Dir']}/config/default"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [item for item in yaml.safe_load_all(rendered) if item]
