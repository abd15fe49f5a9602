"""nodeless deployed for a real control plane: the module applied on ministack, EC2 of `nodeless local`, and the Kubernetes of this test.

`nodeless local` serves EC2, SSM, IAM and the price list, and starts a kubelet for each instance from its user data; its own API server is only
used to read the Nodes that those kubelets register (nodes.py). EKS describes the real control plane instead.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..ministack import Ministack
from ..processes import wait_for
from ..recording import DeployedProxy, signed_by_name
from ..terraform import ROOT, copy_module, environment, terraform
from ..world import World
from . import clock
from .binaries import Binaries
from .gateway import Gateway
from .nodes import Joining
from .relay import Relay
from .server import ControlPlane
from .tokens import Authenticator, Identity

CLUSTER = "local"
# The credentials that ministack and the proxy accept from every caller.
SECRET = "test"
CLUSTER_ADMIN = "AmazonEKSClusterAdminPolicy"
WEBHOOK = "nodeless-wake"


class RealClusterProxy(DeployedProxy):
    """The AWS of the functions. EKS describes the real control plane, but with the version of `nodeless local`, which has images only for it."""

    def __init__(self, plane: ControlPlane, world: World, ministack: Ministack, logs: Path) -> None:
        super().__init__(world, ministack, logs)
        self._plane = plane
        # The address of the API server for the functions, such as that of a gateway.
        self.cluster_url = plane.url

    def _take(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Iterable[tuple[str, str]], bytes]:
        status, answered, content = super()._take(method, target, headers, body)
        if method == "GET" and urlsplit(target).path == f"/clusters/{CLUSTER}" and status == 200:
            described = json.loads(content)
            described["cluster"]["endpoint"] = self.cluster_url
            described["cluster"]["certificateAuthority"] = {"data": self._plane.authority.pair.certificate_data()}
            content = json.dumps(described).encode()
        return status, answered, content


@dataclass(frozen=True)
class Inputs:
    """The parts of a deployment."""

    binaries: Binaries
    nodeless: Path
    zips: Path
    mirror: Path
    # Variables of the module, besides those that tests/deployed/root sets.
    variables: Mapping[str, Any] = field(default_factory=dict)


class Deployment:
    """nodeless, applied, in a cluster with a real control plane. Use as a context manager."""

    def __init__(self, inputs: Inputs, directory: Path, logs: Path, prepare: Callable[[Deployment], None] = lambda _: None) -> None:
        """`prepare` creates the objects that exist before nodeless is applied."""
        self.inputs, self.directory, self.logs, self._prepare = inputs, directory, logs, prepare
        self._identities: dict[str, Identity] = {}
        self._stack = ExitStack()
        self.outputs: dict[str, Any] = {}

    def __enter__(self) -> Deployment:
        with ExitStack() as started:
            self.authenticator = started.enter_context(Authenticator(CLUSTER, SECRET, self._identity))
            self.plane = started.enter_context(
                ControlPlane(self.inputs.binaries, self.directory / "control-plane", self.logs, self.authenticator)
            )
            self.world = started.enter_context(World(self.inputs.nodeless, CLUSTER, self.directory, self.logs))
            self.ministack = started.enter_context(Ministack(self.logs))
            self.proxy = started.enter_context(RealClusterProxy(self.plane, self.world, self.ministack, self.logs))
            self.relay = started.enter_context(Relay(self.plane.authority.server("webhook"), self._invoke))
            self.nodes = started.enter_context(self.joining())
            self._prepare(self)
            self._apply(started)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def joining(self) -> Joining:
        """What lets instances join the cluster."""
        return Joining(self.world, self.plane)

    def functions(self) -> dict[str, str]:
        """The names under which the functions are deployed."""
        return dict(self.outputs["function_names"])

    def dead_letters(self) -> dict[str, str]:
        """The number of messages in dead-letter queues, for each queue that has any."""
        sqs = self.ministack.client("sqs")
        counts = {
            name: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]["ApproximateNumberOfMessages"]
            for name, url in self.outputs["dead_letter_queue_urls"].items()
        }
        return {name: count for name, count in counts.items() if count != "0"}

    def logged(self, function: str, event: str) -> list[dict[str, Any]]:
        """The log lines of this event of a function, oldest first."""
        pages = self.ministack.client("logs").get_paginator("filter_log_events")
        messages = (item["message"] for page in pages.paginate(logGroupName=f"/aws/lambda/{self.functions()[function]}") for item in page["events"])
        return [line for message in messages if f'"{event}"' in message and (line := json.loads(message))["event"] == event]

    # Terraform

    def _apply(self, started: ExitStack) -> None:
        signed = signed_by_name(self.inputs.zips, self.directory / "signed")
        copy_module(self.directory / "terraform")
        self.root = Path(shutil.copytree(ROOT / "tests/deployed/root", self.directory / "root"))
        # Terraform merges the arguments of an override file into the block of the module.
        (self.root / "variables_override.tf.json").write_text(json.dumps({"module": {"nodeless": dict(self.inputs.variables)}}))
        self._environment = environment(AWS_ENDPOINT_URL=self.ministack.url)
        self._variables = [
            f"-var=cluster_name={CLUSTER}",
            f"-var=artifacts_directory={signed}",
            "-var=wake_enabled=true",
            f"-var=extra_environment={json.dumps(self.proxy.endpoints())}",
        ]
        self.terraform("init", f"-plugin-dir={self.inputs.mirror}")
        self.terraform("apply", "-auto-approve", *self._variables)
        self.ministack.drop_doubled_mappings(self.root / "terraform.tfstate")
        self.outputs = {name: output["value"] for name, output in json.loads(self.terraform("output", "-json")).items()}
        self.proxy.read_policies()
        role = str(self.outputs["node_role_name"])
        self.world.add_instance_profile(str(self.outputs["node_instance_profile_name"]), role)
        self.redirect_webhook()

    def destroy(self) -> None:
        self.terraform("destroy", "-auto-approve", *self._variables)

    def terraform(self, *arguments: str) -> str:
        return terraform(self.root, *arguments, env=self._environment, log=self.logs / "terraform.log")

    # The webhook

    def redirect_webhook(self) -> None:
        """Points the installed webhook at this machine: the host of the Function URL does not resolve."""
        hooks = self._webhooks()
        parts = urlsplit(hooks[0]["clientConfig"]["url"])
        self._function_url = f"{parts.scheme}://{parts.netloc}"
        here = {"url": self.relay.url + parts.path, "caBundle": self.plane.authority.pair.certificate_data()}
        change = [{"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": here} for index in range(len(hooks))]
        self.plane.kubectl("patch", "validatingwebhookconfiguration", WEBHOOK, "--type=json", "-p", json.dumps(change))

    def _webhooks(self) -> list[dict[str, Any]]:
        found = json.loads(self.plane.kubectl("get", "validatingwebhookconfiguration", WEBHOOK, "-o", "json"))
        return found["webhooks"]

    def _invoke(self, path: str, review: dict[str, Any]) -> tuple[int, bytes]:
        """Calls wake by its Function URL, at the path that the API server called."""
        return self.ministack.call_function_url(self._function_url + path.partition("?")[0], review)

    # The identity of a token

    def _identity(self, access_key: str) -> Identity | None:
        """The user and groups of the access entry of a function's role. Not cached, because Terraform creates the entries while it applies."""
        function = self.ministack.client("lambda").get_function_configuration(FunctionName=access_key)
        role, eks = function["Role"], self.ministack.client("eks")
        if role not in eks.list_access_entries(clusterName=CLUSTER)["accessEntries"]:
            return None
        entry = eks.describe_access_entry(clusterName=CLUSTER, principalArn=role)["accessEntry"]
        groups = [*entry["kubernetesGroups"], "system:authenticated"]
        attached = eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=role)["associatedAccessPolicies"]
        # EKS has its own authorizer for access policies; system:masters is the closest equivalent in Kubernetes.
        if any(policy["policyArn"].endswith(f"/{CLUSTER_ADMIN}") for policy in attached):
            groups.append("system:masters")
        account, name = role.split(":")[4], role.rsplit("/", 1)[-1]
        return Identity(f"arn:aws:sts::{account}:assumed-role/{name}/{access_key}", tuple(groups))

    def restart(self) -> None:
        """Ends the processes of all functions, whatever they do, and restarts the API server. Whatever problem the functions have until the
        next check is due to that."""
        self.ministack.problems.allow_any()
        self.ministack.kill_functions()
        self.plane.restart_server()

    # Temporary changes of functions

    @contextmanager
    def environment(self, function: str, variables: Mapping[str, str]) -> Iterator[None]:
        """Runs a function with more environment variables. Its execution environments are replaced at the beginning and at the end."""
        client, name = self.ministack.client("lambda"), self.functions()[function]
        before = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        client.update_function_configuration(FunctionName=name, Environment={"Variables": before | dict(variables)})
        try:
            yield
        finally:
            client.update_function_configuration(FunctionName=name, Environment={"Variables": before})

    @contextmanager
    def moved_clocks(self, seconds: Mapping[str, int]) -> Iterator[None]:
        """Runs functions with clocks that differ from all others by this number of seconds."""
        with ExitStack() as moved:
            for function, offset in seconds.items():
                moved.enter_context(self.environment(function, clock.moved(self.directory, offset)))
            yield

    @contextmanager
    def through(self, gateway: Gateway, function: str) -> Iterator[None]:
        """Has a function call the API server through a gateway."""
        direct, self.proxy.cluster_url = self.proxy.cluster_url, gateway.url
        try:
            # A new execution environment asks EKS for the address.
            with self.environment(function, {"NODELESS_TESTS_GATEWAY": gateway.url}):
                yield
                self.proxy.cluster_url = direct
        finally:
            self.proxy.cluster_url = direct

    # Instances

    def instances(self) -> list[dict[str, Any]]:
        return self.world.instances()

    def wait(self, what: str, condition: Any, seconds: float = 180, every: float = 0.5) -> Any:
        return wait_for(what, condition, seconds, every)
