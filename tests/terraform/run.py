#!/usr/bin/env python3
"""Checks the Terraform module without an account: names that it shares with other parts, fmt, validate, `terraform test` with a mocked
provider, and checkov. Also checks the table of docs/reference/aws.csv, which needs no emulator and no provider.

    .venv/bin/python tests/terraform/run.py

Checks that need the AWS provider are skipped with a message if no mirror of it is found on the machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import assumptions  # noqa: E402
import contracts  # noqa: E402
from tools.results import Unavailable, needs, skip  # noqa: E402
from tools.terraform import ROOT, copy_module, placeholder_artifacts, plugin_mirror, terraform  # noqa: E402


def step(title: str) -> None:
    print(f"--- {title}", flush=True)


def check_format() -> None:
    step("terraform fmt")
    for directory in ("terraform", "tests/deployed/root", "tests/deployed/root-shared"):
        terraform(ROOT / directory, "fmt", "-check", "-recursive", "-diff")


def check_with_provider(mirror: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="nodeless-terraform-") as scratch:
        module = copy_module(Path(scratch) / "terraform")
        artifacts = placeholder_artifacts(Path(scratch) / "artifacts")
        for directory in (module, module / "examples/complete", module / "examples/many-clusters"):
            step(f"terraform validate {directory.relative_to(scratch)}")
            terraform(directory, "init", "-backend=false", f"-plugin-dir={mirror}")
            terraform(directory, "validate")
            step(f"terraform test {directory.relative_to(scratch)}")
            print(terraform(directory, "test", f"-var=artifacts_directory={artifacts}"))
            if directory == module:
                check_order(directory)


def check_order(directory: Path) -> None:
    """Checks the order in which resources are applied, which is reversed by destroy."""
    step("terraform graph")
    edges: dict[str, set[str]] = {}
    for line in terraform(directory, "graph").splitlines():
        found = re.match(r'\s*"(.+?)" -> "(.+?)";', line)
        if found:
            edges.setdefault(found[1], set()).add(found[2])

    def before(resource: str) -> set[str]:
        """All resources on which a resource depends."""
        seen: set[str] = set()
        left = [resource]
        while left:
            for other in edges.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        return seen

    for later, earlier, why in [
        ("aws_lambda_invocation.catalog", "aws_lambda_invocation.install", "the catalog reads EC2NodeClasses"),
        ("aws_cloudwatch_event_rule.schedule", "aws_lambda_invocation.catalog", "a plan without a catalog fails"),
        ("aws_cloudwatch_metric_alarm.stale", "aws_cloudwatch_event_target.heartbeat", "without plans it is in ALARM"),
        ("aws_cloudwatch_metric_alarm.stale", "aws_cloudwatch_event_target.sweep", "without sweeps it is in ALARM"),
        ("aws_lambda_function.function", "aws_iam_role_policy_attachment.vpc", "Lambda could not delete the network interfaces"),
        ("aws_lambda_invocation.install", "aws_eks_access_entry.installer", "the installer gets its rights in the cluster by its access entry"),
        ("aws_lambda_invocation.install", "aws_iam_role_policy.function", "the installer gets and ends its rights by the policy of its role"),
        ("aws_lambda_invocation.remove_nodes", "aws_lambda_event_source_mapping.claims", "lifecycle must work while nodes are removed"),
        ("aws_lambda_invocation.remove_nodes", "aws_cloudwatch_event_rule.schedule", "sweeps must run while nodes are removed"),
        ("aws_lambda_invocation.remove_nodes", "aws_eks_access_entry.node", "nodes must be in the cluster to be drained"),
        ("aws_lambda_invocation.remove_nodes", "aws_eks_access_entry.windows_node", "Windows nodes must be in the cluster to be drained"),
        ("aws_lambda_invocation.remove_nodes", "aws_iam_role_policy_attachment.node", "pods start on the nodes that are left: addresses, images"),
        ("aws_lambda_invocation.remove_nodes", "aws_iam_role_policy.node", "pods start on the nodes that are left: IPv6 addresses"),
        ("aws_lambda_invocation.remove_nodes", "aws_lambda_function_recursion_config.function", "Lambda would stop the functions' messages as a loop"),
    ]:
        assert earlier in before(later), f"{later} must depend on {earlier}: {why}"


def check_policies() -> None:
    step("checkov")
    checkov = Path(sys.executable).with_name("checkov")
    if not checkov.exists():
        found = shutil.which("checkov")
        if found is None:
            raise SystemExit("checkov is missing: pip install -r tests/requirements.txt")
        checkov = Path(found)
    done = subprocess.run(
        [checkov, "--directory", ROOT / "terraform", "--config-file", ROOT / "tests/terraform/checkov.yaml"],
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit("checkov found the problems above")


def main() -> None:
    step("contracts")
    contracts.check_all()
    step("assumptions about AWS")
    assumptions.check_all()
    try:
        needs("terraform")
        check_format()
    except Unavailable as missing:
        skip("terraform fmt", missing)
    try:
        check_with_provider(plugin_mirror())
    except Unavailable as missing:
        skip("terraform validate and terraform test", missing)
    check_policies()
    step("done")


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, RuntimeError) as failure:
        sys.exit(str(failure))
