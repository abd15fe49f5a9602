"""The module's policies as Terraform renders them, with a mocked provider: no account, no emulator.

Every queue, group and role has an ARN of its own here, unlike in terraform/tests, so that a policy shows which of them it means.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .iam import Policy
from .terraform import FUNCTIONS, copy_module, environment, placeholder_artifacts, terraform

ACCOUNT = "111122223333"
REGION = "eu-west-1"
CLUSTER = "ours"
NODE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/ours-node"
SIBLING = "sibling"
SIBLING_NODE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/sibling-node"
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/nodeless"
TABLE_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/table"
QUEUE_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/queues"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:costs"
TOPIC_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/topic"
QUEUES = ("plan", "plan_dead_letters", "claims", "claims_dead_letters", "interruption", "interruption_dead_letters", "catalog", "catalog_dead_letters")

MOCKS = f"""
mock_provider "aws" {{
  mock_data "aws_eks_cluster" {{
    defaults = {{ vpc_config = [{{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }}] }}
  }}
  override_data {{
    target = data.aws_caller_identity.current
    values = {{ account_id = "{ACCOUNT}" }}
  }}
  override_data {{
    target = data.aws_partition.current
    values = {{ partition = "aws" }}
  }}
  override_data {{
    target = data.aws_region.current
    values = {{ id = "{REGION}", name = "{REGION}" }}
  }}
  override_data {{
    target = data.aws_secretsmanager_random_password.wake_path
    values = {{ random_password = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL" }}
  }}
  mock_resource "aws_iam_role" {{
    defaults = {{ arn = "{NODE_ROLE}" }}
  }}
  mock_resource "aws_iam_policy" {{
    defaults = {{ arn = "arn:aws:iam::{ACCOUNT}:policy/mock" }}
  }}
  mock_resource "aws_lambda_function" {{
    defaults = {{ arn = "arn:aws:lambda:{REGION}:{ACCOUNT}:function:mock" }}
  }}
  mock_resource "aws_lambda_function_url" {{
    defaults = {{ function_url = "https://mock.lambda-url.{REGION}.on.aws/" }}
  }}
  mock_resource "aws_cloudwatch_log_group" {{
    defaults = {{ arn = "arn:aws:logs:{REGION}:{ACCOUNT}:log-group:ours" }}
  }}
  mock_resource "aws_cloudwatch_event_rule" {{
    defaults = {{ arn = "arn:aws:events:{REGION}:{ACCOUNT}:rule/mock" }}
  }}
  mock_resource "aws_dynamodb_table" {{
    defaults = {{ arn = "{TABLE}" }}
  }}
"""

INSIDE = 'run "inside" {\n  variables {\n    vpc_config = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }\n  }\n}\n'


# The module of the sibling creates the functions, and our cluster shares them.
SHARED = f"""
run "sibling" {{
  variables {{
    cluster_name     = "{SIBLING}"
    create_node_role = false
    node_role_arn    = "{SIBLING_NODE_ROLE}"
  }}
}}

run "shared" {{
  variables {{
    shared_functions = run.sibling.shared_functions
    kms_key_arns     = {{ queues = "{QUEUE_KEY}" }}
  }}
}}
"""


def queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:ours-{name}"


def _queue_override(name: str) -> str:
    url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/ours-{name}"
    return f'  override_resource {{\n    target = aws_sqs_queue.{name}\n    values = {{ arn = "{queue_arn(name)}", url = "{url}" }}\n  }}\n'


# AWS's policy for functions inside a VPC, version 3:
# https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html
VPC_ACCESS_ARN = "arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole"
VPC_ACCESS_ACTIONS = (
    "logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
)  # fmt: skip
VPC_ACCESS = json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": VPC_ACCESS_ACTIONS, "Resource": "*"}})


@dataclass(frozen=True)
class Rendered:
    """The policies of all functions' roles, with every right that the module's variables can add: outside a VPC, inside one, and those
    of the functions that our cluster shares with a sibling: for our cluster alone, and for both."""

    outside: dict[str, Policy]
    inside: dict[str, Policy]
    shared: dict[str, Policy]
    both_clusters: dict[str, Policy]


def render(mirror: Path, scratch: Path) -> Rendered:
    """Runs `terraform test`, which prints the planned state."""
    module = copy_module(scratch / "terraform")
    artifacts = placeholder_artifacts(scratch / "artifacts")
    given = f'  cluster_name = "{CLUSTER}"\n  zonal_shift_enabled = true\n  commitments = true\n  feature_gates = {{ reboot_for_repair = true }}\n  kms_key_arns = {{ table = "{TABLE_KEY}", queues = "{QUEUE_KEY}" }}\n'
    given += f'  weekly_report = {{ topic_arn = "{TOPIC}", kms_key_arn = "{TOPIC_KEY}" }}\n'
    test = f'{MOCKS}{"".join(map(_queue_override, QUEUES))}}}\n\nvariables {{\n{given}}}\n\nrun "outside" {{}}\n\n{INSIDE}{SHARED}'
    (module / "tests/rights.tftest.hcl").write_text(test)
    terraform(module, "init", "-backend=false", f"-plugin-dir={mirror}")
    command = ["terraform", f"-chdir={module}", "test", "-json", "-verbose", "-filter=tests/rights.tftest.hcl"]
    done = subprocess.run([*command, f"-var=artifacts_directory={artifacts}"], env=environment(), text=True, capture_output=True, check=False)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    states = {message["@testrun"]: message["test_state"] for message in messages if message["type"] == "test_state"}
    if done.returncode != 0 or set(states) != {"outside", "inside", "sibling", "shared"}:
        problems = [message.get("diagnostic", message).get("detail", message) for message in messages if message.get("@level") == "error"]
        raise RuntimeError(f"{' '.join(command)} failed with exit code {done.returncode}: {problems or done.stderr}")
    shared, sibling = _shared(states["shared"]), _policies(states["sibling"])
    both = {name: Policy(sibling[name].statements + policy.statements) for name, policy in shared.items()}
    return Rendered(_policies(states["outside"]), _policies(states["inside"]), shared, both)


def _shared(state: Mapping[str, Any]) -> dict[str, Policy]:
    """The policies that the module of a cluster attaches to the roles of the functions that it shares."""
    resources = [r for r in state["root_module"]["resources"] if (r["type"], r["name"]) == ("aws_iam_policy", "shared")]
    found = {resource["index"]: Policy.parse(resource["values"]["policy"]) for resource in resources}
    assert set(found) == {"planner", "lifecycle", "interruption", "catalog"}, sorted(found)
    return found


def _policies(state: Mapping[str, Any]) -> dict[str, Policy]:
    found: dict[str, list[str]] = {name: [] for name in FUNCTIONS}
    for resource in state["root_module"]["resources"]:
        if resource["type"] == "aws_iam_role_policy" and resource["name"] == "function":
            found[resource["index"]].append(resource["values"]["policy"])
        if resource["type"] == "aws_iam_role_policy_attachment" and resource["name"] != "node":
            assert resource["values"]["policy_arn"] == VPC_ACCESS_ARN, f"unknown to this test: {resource['values']['policy_arn']}"
            found[resource["index"]].append(VPC_ACCESS)
    missing = [name for name, documents in found.items() if not documents]
    assert not missing, f"Terraform rendered no policy for {missing}"
    return {name: Policy.parse(*documents) for name, documents in found.items()}
