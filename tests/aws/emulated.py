"""The emulators: ministack for what Terraform makes, the local world for EC2 and the cluster.

AWS would have to allow every call of the functions: the proxy fails the run at its end if it would not.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tools.ministack import Ministack
from tools.recording import DeployedProxy, signed_by_name
from tools.terraform import environment
from tools.world import SERVICES, World

from .place import Place
from .remains import remains


class Emulated(Place):
    """ministack and `nodeless local`, started for this."""

    name = "emulators (ministack and nodeless local)"
    is_aws = False
    poll = 1

    def __init__(self, directory: Path, cluster: str, region: str, binary: Path, zips: Path, mirror: Path) -> None:
        super().__init__(directory, cluster, region)
        self.binary, self.zips, self.mirror = binary, signed_by_name(zips, directory / "signed"), mirror
        self._stack = ExitStack()
        self._profile = ""

    def __enter__(self) -> Emulated:
        super().__enter__()
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        with ExitStack() as started:
            self.world = started.enter_context(World(self.binary, self.cluster, self.directory, logs))
            self.ministack = Ministack(logs)
            self.proxy = DeployedProxy(self.world, self.ministack, logs)
            self.ministack.set_for_functions(self.proxy.endpoints())
            started.enter_context(self.ministack)
            started.enter_context(self.proxy)
            self._stack = started.pop_all()
        # The world has a network for the cluster, with its tags.
        self.given = remains(self)[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def variables(self) -> dict[str, str]:
        return {"artifacts_directory": str(self.zips), "architecture": "x86_64"}

    def environment(self) -> dict[str, str]:
        return environment(AWS_ENDPOINT_URL=self.ministack.url)

    def init_arguments(self) -> list[str]:
        return [f"-plugin-dir={self.mirror}"]

    def clients(self, service: str) -> list[Any]:
        theirs = self.ministack.client(service)
        # The world's own cluster is there before and after.
        return [self.world.client(service), theirs] if service.upper() in SERVICES and service != "eks" else [theirs]

    def connect(self) -> None:
        self.ministack.drop_doubled_mappings(self.root / "terraform.tfstate")
        self.proxy.read_policies()
        state = self.state()
        assert state is not None
        (profile,) = [r["instances"][0]["attributes"] for r in state["resources"] if r["type"] == "aws_iam_instance_profile"]
        self._profile = profile["name"]
        # EC2 uses the profile's name. The simulation has none of the roles that Terraform created in ministack.
        self.world.add_instance_profile(self._profile, self.outputs()["node_role_name"])
        self.world.redirect_webhook(self.ministack)

    def disconnect(self) -> None:
        if self._profile:
            iam = self.world.client("iam")
            for role in iam.get_instance_profile(InstanceProfileName=self._profile)["InstanceProfile"]["Roles"]:
                iam.remove_role_from_instance_profile(InstanceProfileName=self._profile, RoleName=role["RoleName"])
            iam.delete_instance_profile(InstanceProfileName=self._profile)
            self._profile = ""

    def interrupt(self, node: dict[str, Any], instance_id: str) -> str:
        """The world interrupts the instance; its event goes into the queue, since only AWS may put it on the bus."""
        self.kubectl("annotate", f"node/{node['metadata']['name']}", "local.nodeless.sh/fault=spot-interruption")
        warning = {
            "version": "0",
            "id": "1e5527d7-bb36-4607-3370-4164db56a401",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2",
            "account": "000000000000",
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self.region,
            "resources": [f"arn:aws:ec2:{self.region}:000000000000:instance/{instance_id}"],
            "detail": {"instance-id": instance_id, "instance-action": "terminate"},
        }
        sqs = self.ministack.client("sqs")
        url = sqs.get_queue_url(QueueName=f"nodeless-{self.cluster}-interruption")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(warning))
        return "the fault spot-interruption of nodeless local, and a warning that was put into the queue"
