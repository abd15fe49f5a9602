"""AWS itself, with the credentials of the person who runs it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

from tools.terraform import ROOT

from .place import Place

FIS_ACTION = "aws:ec2:send-spot-instance-interruptions"


class Account(Place):
    """An AWS account and a region."""

    name = "AWS"
    is_aws = True
    poll = 5

    def __init__(self, directory: Path, cluster: str, region: str, artifacts: Path = ROOT / "target/lambda", architecture: str = "arm64") -> None:
        super().__init__(directory, cluster, region)
        self.artifacts = artifacts
        self.architecture = architecture
        self.session = boto3.Session(region_name=region)
        self._clients: dict[str, Any] = {}

    @property
    def fis_name(self) -> str:
        """The name of the role and the tag of the experiment template."""
        return f"nodeless-{self.cluster}-{self.region}-fis"

    def variables(self) -> dict[str, str]:
        return {"artifacts_directory": str(self.artifacts), "architecture": self.architecture}

    def environment(self) -> dict[str, str]:
        # Variables for another Terraform configuration would change the example.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_VAR_", "TF_CLI_ARGS", "TF_WORKSPACE", "TF_DATA_DIR"))}
        return kept | {"AWS_REGION": self.region, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}

    def clients(self, service: str) -> list[Any]:
        # Pricing answers in few regions, and its prices name theirs.
        region = "us-east-1" if service == "pricing" else self.region
        if service not in self._clients:
            self._clients[service] = self.session.client(service, region_name=region, config=Config(retries={"max_attempts": 8, "mode": "standard"}))
        return [self._clients[service]]

    def number(self) -> str:
        """The account's number, which the report must not show."""
        return str(self.client("sts").get_caller_identity()["Account"])

    def connect(self) -> None:
        """Writes a kubeconfig that asks the AWS CLI for tokens, as `aws eks update-kubeconfig` does, without touching the user's own."""
        cluster = self.client("eks").describe_cluster(name=self.cluster)["cluster"]
        command = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["--region", self.region, "eks", "get-token", "--cluster-name", self.cluster, "--output", "json"],
            "interactiveMode": "Never",
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "first-hour",
            "clusters": [{"name": "first-hour", "cluster": {"server": cluster["endpoint"], "certificate-authority-data": cluster["certificateAuthority"]["data"]}}],
            "users": [{"name": "first-hour", "user": {"exec": command}}],
            "contexts": [{"name": "first-hour", "context": {"cluster": "first-hour", "user": "first-hour"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.kubeconfig.chmod(0o600)

    def interrupt(self, node: dict[str, Any], instance_id: str) -> str:
        """An experiment of AWS Fault Injection Service that targets the one instance."""
        role = self._fis_role()
        arn = f"arn:{role.split(':')[1]}:ec2:{self.region}:{self.number()}:instance/{instance_id}"
        fis = self.client("fis")
        template = fis.create_experiment_template(
            description="Interrupts one spot instance of a nodeless test",
            stopConditions=[{"source": "none"}],
            targets={"spot": {"resourceType": "aws:ec2:spot-instance", "resourceArns": [arn], "selectionMode": "ALL"}},
            actions={"interrupt": {"actionId": FIS_ACTION, "parameters": {"durationBeforeInterruption": "PT2M"}, "targets": {"SpotInstances": "spot"}}},
            roleArn=role,
            tags={"Name": self.fis_name},
        )["experimentTemplate"]
        # The role was made a moment ago, and IAM makes it known to other services within seconds to minutes.
        for attempt in range(6):
            experiment = fis.start_experiment(experimentTemplateId=template["id"])["experiment"]
            state = self._experiment_state(experiment["id"])
            if state["status"] in ("running", "completed"):
                return f"an experiment of AWS Fault Injection Service with {FIS_ACTION}"
            if attempt < 5:
                time.sleep(15)
        raise AssertionError(f"the experiment of AWS Fault Injection Service does not run: {state['status']}: {state.get('reason', 'no reason given')}")

    def _experiment_state(self, experiment: str) -> dict[str, str]:
        state: dict[str, str] = {"status": "initiating"}
        for _ in range(60):
            state = self.client("fis").get_experiment(id=experiment)["experiment"]["state"]
            if state["status"] not in ("pending", "initiating"):
                break
            time.sleep(2)
        return state

    def _fis_role(self) -> str:
        trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "fis.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
        owned = {"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{self.cluster}": "owned"}}
        rights = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"},
                {"Effect": "Allow", "Action": "ec2:SendSpotInstanceInterruptions", "Resource": "*", "Condition": owned},
            ],
        }
        iam = self.client("iam")
        try:
            role = iam.create_role(RoleName=self.fis_name, AssumeRolePolicyDocument=json.dumps(trust), Description="First hour of nodeless")
        except iam.exceptions.EntityAlreadyExistsException:
            role = iam.get_role(RoleName=self.fis_name)
        iam.put_role_policy(RoleName=self.fis_name, PolicyName="interrupt", PolicyDocument=json.dumps(rights))
        return str(role["Role"]["Arn"])

    def clean_up_interruption(self) -> None:
        fis, iam = self.client("fis"), self.client("iam")
        # A region without the service has no endpoint of it, and nothing to remove.
        with suppress(EndpointConnectionError):
            for page in fis.get_paginator("list_experiment_templates").paginate():
                for template in page["experimentTemplates"]:
                    if template.get("tags", {}).get("Name") == self.fis_name:
                        fis.delete_experiment_template(id=template["id"])
        for remove in (
            lambda: iam.delete_role_policy(RoleName=self.fis_name, PolicyName="interrupt"),
            lambda: iam.delete_role(RoleName=self.fis_name),
        ):
            try:
                remove()
            except ClientError as error:
                if error.response["Error"]["Code"] != "NoSuchEntity":
                    raise
