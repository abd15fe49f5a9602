"""Every call of the functions is allowed by their own roles, and no role allows what nothing uses and docs/reference/unused-kubernetes.csv does not explain.

These tests read the audit log of what ran before them, so they run last (conftest.py)."""

from __future__ import annotations

import pytest

from order import WHOLE_RUN
from tools.control_plane.deployment import CLUSTER, Deployment
from tools.control_plane.rights import FUNCTIONS, documented_as_unused, forbidden, granted, optional, used


@pytest.fixture
def names(deployment: Deployment) -> dict[str, str]:
    deployed = deployment.functions()
    return {deployed[name]: name for name in FUNCTIONS}


@pytest.fixture
def groups(deployment: Deployment) -> dict[str, list[str]]:
    """The groups of each function's access entry, as the module made it."""
    eks, functions = deployment.ministack.client("eks"), deployment.ministack.client("lambda")
    found = {}
    for name, deployed in deployment.functions().items():
        role = functions.get_function_configuration(FunctionName=deployed)["Role"]
        if name in FUNCTIONS:
            found[name] = eks.describe_access_entry(clusterName=CLUSTER, principalArn=role)["accessEntry"]["kubernetesGroups"]
    return found


def test_no_call_lacks_a_right(deployment: Deployment, names: dict[str, str], groups: dict[str, list[str]]) -> None:
    """A server that has just started forbids everything until it has read the roles, so only what no role grants counts."""
    may, asked = granted(groups), forbidden(deployment.plane.audit, names)
    refused = {name: rights - may[name] - optional() for name, rights in asked.items()}
    missing = {name: sorted(map(str, rights)) for name, rights in refused.items() if rights}
    assert not missing, f"functions made calls that their roles do not allow: {missing}"


def test_every_right_is_used_or_explained(
    request: pytest.FixtureRequest, deployment: Deployment, names: dict[str, str], groups: dict[str, list[str]]
) -> None:
    may, did = granted(groups), used(deployment.plane.audit, names)
    calls = [call for call in deployment.plane.audit.calls() if call.user.rsplit("/", 1)[-1] in names]
    print(f"\n{len(calls)} calls of the functions in the audit log")
    documented = documented_as_unused()
    unexplained = {}
    for name in FUNCTIONS:
        unused = {str(right) for right in may[name] - did[name]}
        print(f"{name}: used {len(did[name])} of {len(may[name])} rights; unused {', '.join(sorted(unused))}")
        if unused - documented[name]:
            unexplained[name] = sorted(unused - documented[name])
    if not request.config.stash[WHOLE_RUN]:
        pytest.skip("only a run of all scenarios shows which rights are unused")
    assert not unexplained, f"roles grant what no scenario used and docs/reference/unused-kubernetes.csv does not list: {unexplained}"
