"""The commands of the page about a rotation of the certificate authority name the nodes that do not trust the successor."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pages
import plans
from tools import artifacts
from tools.results import needs

ANNOTATION = "nodeless.sh/certificate-authority"
TRUSTED = {"behind": "present", "ready": "present.successor"}


def commands() -> list[str]:
    (block,) = [block.text for block in pages.code((pages.DOCS / "operate/certificate-authority.md").read_text()) if block.language == "sh"]
    return block.splitlines()


def node(name: str, trusted: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"karpenter.k8s.aws/ec2nodeclass": "default"}, "annotations": {ANNOTATION: trusted}}}


def test_the_commands_name_the_nodes_that_lack_the_successor(tmp_path: Path) -> None:
    needs("kubectl")
    nodeless = artifacts.command()
    with plans.world(nodeless, tmp_path, "--no-controllers", "--with-nodepool") as kubeconfig:

        def printed(command: str) -> str:
            command = command.replace("nodeless ", f"{nodeless} ", 1) if command.startswith("nodeless ") else command
            done = subprocess.run(command, shell=True, env=os.environ | {"KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False)
            assert done.returncode in (0, 3), done.stderr
            return done.stdout

        plans.kubectl(kubeconfig, "annotate", "ec2nodeclass", "default", "--overwrite", f"{ANNOTATION}=present.successor")
        nodes = {"apiVersion": "v1", "kind": "List", "items": [node(*each) for each in TRUSTED.items()]}
        plans.kubectl(kubeconfig, "apply", "-f", "-", stdin=json.dumps(nodes))
        doctor, listing = commands()
        assert "when it is activated: 1\n" in printed(doctor)
        head, *rows = [line.split() for line in printed(listing).splitlines()]
        assert head == ["NODE", "TRUSTS"] and dict(rows) == TRUSTED
