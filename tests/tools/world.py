"""The local world: a cluster without nodes, and EC2, served by `nodeless local`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from .ministack import REGION, Ministack
from .processes import Process, wait_for
from .results import needs

# The AWS services of the world. ministack serves all others that the functions call.
SERVICES = ("EC2", "EKS", "SSM", "PRICING", "IAM")


class World:
    """A running `nodeless local`. Its controllers are the deployed functions unless it gets arguments of its own. Use as a context manager."""

    def __init__(self, binary: Path, cluster: str, directory: Path, logs: Path, *arguments: str) -> None:
        self.cluster = cluster
        self.kubeconfig = directory / "kubeconfig"
        self.aws_url = ""
        self.kubernetes_url = ""
        own = arguments or ("--no-controllers",)
        command = [binary, "local", *own, "--cluster-name", cluster, "--kubeconfig", self.kubeconfig, "--output", "json"]
        self._process = Process("world" if cluster == "local" else f"world-{cluster}", command, logs)

    def __enter__(self) -> World:
        needs("kubectl")
        self._process.__enter__()
        try:
            announced = wait_for("the world to print its addresses", self._announcement, 60)
            self.aws_url, self.kubernetes_url = announced["aws"], announced["kubernetes"]
            self._process.wait_until_answers(self.aws_url)
            wait_for("the world's API server", lambda: self.kubectl("get", "--raw", "/version", check=False), 30)
        except BaseException:
            self._process.__exit__()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        self._process.__exit__(*reason)

    def _announcement(self) -> dict[str, str] | None:
        if self._process.ended() is not None:
            raise AssertionError(f"`nodeless local` ended with {self._process.ended()}; its log:\n{self._process.tail()}")
        lines = [line for line in self._process.tail(100_000).splitlines() if line.startswith("{") and '"kubeconfig"' in line]
        return json.loads(lines[0]) if lines else None

    def endpoints(self) -> dict[str, str]:
        """Environment variables that send calls here, which are not recorded: for the `nodeless` command."""
        return {f"AWS_ENDPOINT_URL_{service}": self.aws_url for service in SERVICES}

    def kubectl_command(self, *arguments: str) -> list[str]:
        return ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs kubectl and returns its output; empty if it fails and `check` is false."""
        done = subprocess.run(self.kubectl_command(*arguments), input=stdin, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            if check:
                raise AssertionError(f"kubectl {' '.join(arguments)} failed:\n{done.stderr}")
            return ""
        return done.stdout

    def items(self, resource: str, *arguments: str) -> list[dict[str, Any]]:
        """Objects of a kind, in all namespaces; none while the kind does not exist yet."""
        out = self.kubectl("get", resource, "--all-namespaces", "-o", "json", *arguments, check=False)
        return json.loads(out)["items"] if out else []

    def client(self, service: str) -> Any:
        """A boto3 client of the AWS services of the world."""
        return boto3.client(
            service,
            endpoint_url=self.aws_url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries={"max_attempts": 2}),
        )

    def add_instance_profile(self, name: str, role: str) -> None:
        """Copies the roles and instance profiles of Terraform from ministack's IAM; in AWS there is only one IAM."""
        iam = self.client("iam")
        try:
            iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        except iam.exceptions.EntityAlreadyExistsException:
            pass  # the world has a role for its cluster's nodes
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)

    def instances(self) -> list[dict[str, Any]]:
        """Instances that are not terminated."""
        client = self.client("ec2")
        return [
            instance
            for page in client.get_paginator("describe_instances").paginate()
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] not in ("terminated", "shutting-down")
        ]

    def webhook_url(self) -> str | None:
        """The URL at which the API server calls wake, if the webhook exists."""
        for configuration in self.items("validatingwebhookconfigurations"):
            if configuration["metadata"]["name"] == "nodeless-wake":
                return configuration["webhooks"][0]["clientConfig"]["url"]
        return None

    def redirect_webhook(self, ministack: Ministack) -> None:
        """Changes the URL of the installed webhook to one of this machine for the same function, because the real host does not resolve."""
        url = self.webhook_url()
        assert url is not None, "the installer has not installed a webhook"
        local = ministack.local_function_url(url)
        change = [{"op": "replace", "path": f"/webhooks/{index}/clientConfig/url", "value": local} for index in range(3)]
        self.kubectl("patch", "validatingwebhookconfiguration", "nodeless-wake", "--type=json", "-p", json.dumps(change))
