"""The CloudWatch dashboard of the Terraform module: where its widgets are, and which metrics they show."""

from __future__ import annotations

import json
import re
from typing import Any

import pages

FUNCTIONS = ["catalog", "interruption", "lifecycle", "planner", "wake"]


def widgets() -> list[dict[str, Any]]:
    """The widgets, with what Terraform inserts for a cluster with its own functions."""
    names = [f"nodeless-example-{function}" for function in FUNCTIONS]
    pairs = [["AWS/Lambda", metric, "FunctionName", name] for name in names for metric in ("Errors", "Throttles")]
    inserted = {
        "region": "us-east-1",
        "cluster": "example",
        "of_cluster": "",
        "planner_log": "SOURCE '/aws/lambda/nodeless-example-planner'",
        "all_logs": " | ".join(f"SOURCE '/aws/lambda/{name}'" for name in names),
        "function_metrics": json.dumps(pairs),
    }
    template = (pages.ROOT / "terraform/dashboard.json.tftpl").read_text()
    return json.loads(re.sub(r"\$\{(\w+)\}", lambda found: inserted[found[1]], template))["widgets"]


def test_money_is_first_then_pods_then_failures() -> None:
    headings = [widget["properties"]["markdown"] for widget in widgets() if widget["type"] == "text"]
    assert headings == ["## What nodes cost", "## Pods that wait", "## What went wrong"]
    assert widgets() == sorted(widgets(), key=lambda widget: (widget["y"], widget["x"])), "the order of the file is that of the screen"


def test_widgets_do_not_overlap_and_fit_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for widget in widgets():
        cells = {(x, y) for x in range(widget["x"], widget["x"] + widget["width"]) for y in range(widget["y"], widget["y"] + widget["height"])}
        assert not cells & taken and all(x < 24 for x, _ in cells), widget["properties"]
        taken |= cells


def test_every_metric_of_the_module_is_shown() -> None:
    module = (pages.ROOT / "terraform/observability.tf").read_text()
    published = dict(re.findall(r'^      (\w+) += "(\w+)"$', module, re.M))
    metrics = [metric for widget in widgets() for metric in widget["properties"].get("metrics", [])]
    ours = {metric[1]: metric[4]["stat"] for metric in metrics if metric[0] == "nodeless"}
    assert len(published) > 20 and ours == published
