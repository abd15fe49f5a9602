"""The pages of docs/reference agree with the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pages
import plans
import pytest
import reference
from tools import artifacts
from tools.results import needs


def test_every_generated_page_is_as_the_code_is() -> None:
    generated = reference.generated()
    assert len(generated) == 6
    stale = [path.name for path, content in generated.items() if not path.is_file() or path.read_text() != content]
    assert not stale, f"{stale} are out of date: run make docs-update"


def test_a_comment_becomes_a_cell() -> None:
    assert reference.prose("    /// See [`step()`](x) of A | B;\n    /// it is: see `a::b`.\n") == "See `step()` of A \\| B; it is: see `a::b`."
    assert reference.first_sentence("One. Two.") == "One."
    assert reference.camel("launch_group_id") == "launchGroupId"


def test_each_metric_of_ours_is_in_the_table_beside_karpenters() -> None:
    text = (pages.DOCS / "reference/karpenter-metrics.md").read_text()
    ours = {row[0].strip("`") for row in reference.metric_rows()}
    missing = {name for name in ours if f"`{name}`" not in text}
    assert not missing
    assert f"[{len(ours)} metrics]" in text
    assert f"[{len(ours)} in CloudWatch](reference/metrics.md)" in (pages.DOCS / "compare.md").read_text()
    lines = {name for pair in re.findall(r"log lines? `([\w-]+)`(?: and `([a-z-]+)`)?", text) for name in pair if name}
    known = {row[0].strip("`") for row in reference.log_rows()}
    assert lines and lines <= known, lines - known


def test_a_flattened_field_has_the_fields_of_its_type() -> None:
    body = "    pub(crate) object: &'a str,\n    #[serde(flatten)]\n    pub(crate) finding: &'a nodeless_doctor::Finding,\n"
    assert reference.field_names(body) == ["object", "severity", "check", "object", "problem", "advice"]
    with pytest.raises(AssertionError, match="0 structs are called NoSuchType"):
        reference.field_names("    #[serde(flatten)]\n    a: &'a x::NoSuchType,\n")
    of_finding = next(row for row in reference.log_rows() if row[0] == "`cluster-finding`")
    assert of_finding[3] == "`severity`, `check`, `object`, `problem`, `advice`"


@pytest.fixture(scope="session")
def nodeless() -> Path:
    return artifacts.command()


def ended(binary: Path, *arguments: str, stdin: str = "") -> int:
    return subprocess.run([binary, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60).returncode


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resources: {requests: {cpu: 9999}}}]}\n"


def test_exit_codes_are_those_of_the_page(nodeless: Path) -> None:
    unschedulable = ended(nodeless, "plan", "--cluster", "-", stdin=POD)
    assert (unschedulable, ended(nodeless, "plan", "--no-such-flag"), ended(nodeless, "plan", "--cluster", "/no/such/file")) == (2, 1, 1)
    assert (ended(nodeless, "crds"), ended(nodeless, "crds", "--no-such-flag"), ended(nodeless, "decisions", "/no/such/file")) == (0, 2, 1)
    done = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    assert ended(nodeless, "plan", "--cluster", "-", stdin=done) == 0
    assert (ended(nodeless, "doctor", "--no-such-flag"), ended(nodeless, "doctor", "--kubeconfig", "/no/such/file")) == (2, 1)


# A class whose subnets do not exist is an error.
UNTAGGED = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: untagged}
spec:
  role: local-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {no: such-tag}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: local}}]
"""


def test_doctor_exits_with_3_for_an_error(nodeless: Path, tmp_path: Path) -> None:
    needs("kubectl")
    with plans.world(nodeless, tmp_path, "--speed", "20") as kubeconfig:
        assert ended(nodeless, "doctor", "--kubeconfig", str(kubeconfig)) == 0
        plans.kubectl(kubeconfig, "apply", "-f", "-", stdin=UNTAGGED)
        plans.wait_for("error of doctor", lambda: ended(nodeless, "doctor", "--kubeconfig", str(kubeconfig)) == 3)
    stated = (pages.DOCS / "reference/exit-codes.md").read_text()
    assert re.search(r"^\| `nodeless doctor` \|.*\b3 if one is\b", stated, re.M)
