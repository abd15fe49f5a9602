"""Places of the first hour: what differs between AWS and the emulators, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.terraform import copy_module

EXAMPLE = "examples/complete"


class Failed(Exception):
    """A command that ended with an error; the message has the end of what it printed."""


def run_to_end(command: list[str], env: dict[str, str], log: Path, stdin: str | None = None) -> str:
    """Runs a command and returns its standard output.

    On Ctrl-C the command is interrupted once and waited for: Terraform then ends what it has begun and writes its state, and what
    is in the state can be destroyed. Killed, it would leave resources that are not in the state. It has a session of its own, so that the
    terminal does not send it a second interrupt, upon which it would not wait.
    """
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        given.write(stdin or "")
        given.seek(0)
        child = subprocess.Popen(command, env=env, stdin=given, stdout=out, stderr=errors, start_new_session=True)
        try:
            child.wait()
        except BaseException:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGINT)
            while child.poll() is None:
                with suppress(KeyboardInterrupt):  # pressed again: nothing may begin while this still writes
                    child.wait()
            raise
        finally:
            out.seek(0)
            errors.seek(0)
            printed = (out.read(), errors.read())
            with log.open("a") as file:
                file.write(f"$ {' '.join(command)}\n{printed[0]}{printed[1]}\n")
    if child.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {child.returncode}:\n{(printed[0] + printed[1])[-4000:]}")
    return printed[0]


class Place(ABC):
    """An account with a region, and this machine's way to it. Use as a context manager."""

    # The name in the report.
    name: str
    # Whether observations here are of AWS.
    is_aws: bool
    # Seconds between two checks of a condition.
    poll: float
    # Resources that exist from the beginning and are none of ours, by kind as in remains.py.
    given: Mapping[str, list[str]] = MappingProxyType({})

    def __init__(self, directory: Path, cluster: str, region: str) -> None:
        self.directory = directory
        self.cluster = cluster
        self.region = region
        self.kubeconfig = directory / "kubeconfig"
        self.log = directory / "commands.log"
        self.root = directory / "terraform" / EXAMPLE

    def __enter__(self) -> Place:
        self.directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what was started for the place itself; not what was deployed."""

    @abstractmethod
    def variables(self) -> dict[str, str]:
        """Variables of the example besides cluster_name and region."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The environment of Terraform and kubectl."""

    def init_arguments(self) -> list[str]:
        """Further arguments of `terraform init`."""
        return []

    @abstractmethod
    def clients(self, service: str) -> list[Any]:
        """boto3 clients of everything that is this service here; the first is what nodeless itself sees."""

    def client(self, service: str) -> Any:
        """The boto3 client of what nodeless sees."""
        return self.clients(service)[0]

    @abstractmethod
    def connect(self) -> None:
        """After the apply: writes the kubeconfig, and connects what is one account in AWS."""

    def disconnect(self) -> None:
        """After the destroy: takes back what `connect` made."""

    @abstractmethod
    def interrupt(self, node: dict[str, Any], instance_id: str) -> str:
        """Has EC2 take a spot instance back, with its warning, and specifies how that was done."""

    def clean_up_interruption(self) -> None:
        """Removes what `interrupt` made."""

    def copy_example(self) -> None:
        """Puts the module into the directory, where the state will be. An existing one stays: its state is needed."""
        if not self.root.is_dir():
            copy_module(self.directory / "terraform")

    def terraform(self, *arguments: str) -> str:
        """Runs Terraform in the example."""
        variables = {"cluster_name": self.cluster, "region": self.region} | self.variables()
        given = [f"-var={k}={v}" for k, v in variables.items()] if arguments[0] in ("apply", "destroy", "plan") else []
        return run_to_end(["terraform", f"-chdir={self.root}", *arguments, *given], self.environment(), self.log)

    def outputs(self) -> dict[str, Any]:
        """The example's outputs."""
        return {name: output["value"] for name, output in json.loads(self.terraform("output", "-json")).items()}

    def state(self) -> dict[str, Any] | None:
        """Terraform's state, once there is one."""
        file = self.root / "terraform.tfstate"
        return json.loads(file.read_text()) if file.is_file() else None

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs kubectl and returns what it printed; empty when it fails and `check` is off."""
        try:
            return run_to_end(["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments], self.environment(), self.log, stdin)
        except Failed:
            if check:
                raise
            return ""

    def items(self, resource: str, *arguments: str) -> list[dict[str, Any]]:
        """Objects of a kind, in all namespaces; none while the kind is not there yet or the API server does not answer."""
        out = self.kubectl("get", resource, "--all-namespaces", "-o", "json", *arguments, check=False)
        return json.loads(out)["items"] if out else []

    def instances(self) -> list[dict[str, Any]]:
        """The cluster's instances that are not about to be gone."""
        owned = {"Name": f"tag:kubernetes.io/cluster/{self.cluster}", "Values": ["owned"]}
        alive = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
        pages = self.client("ec2").get_paginator("describe_instances").paginate(Filters=[owned, alive])
        return [i for page in pages for r in page["Reservations"] for i in r["Instances"]]

    def log_events(self, function: str) -> list[dict[str, Any]]:
        """The log events of a function, oldest first."""
        logs = self.client("logs")
        try:
            pages = list(logs.get_paginator("filter_log_events").paginate(logGroupName=f"/aws/lambda/nodeless-{self.cluster}-{function}"))
        except logs.exceptions.ResourceNotFoundException:
            return []
        return sorted((event for page in pages for event in page["events"]), key=lambda event: event["timestamp"])
