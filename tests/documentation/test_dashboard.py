"""The picture of the CloudWatch dashboard is up to date, and its queries match their titles."""

from __future__ import annotations

import json
import re
from typing import Any

import dashboard
import dashboard_recording as recording
import pages
import pytest

NOW = 1_000_000_000
LOG = "/aws/lambda/nodeless-example-planner"


def line(ago: int, **more: Any) -> dict[str, Any]:
    return {"@timestamp": NOW - ago * 1000, "@log": LOG, "event": "costs-recorded", **more}


def costs(ago: int, pool: str, dollars: float) -> dict[str, Any]:
    """A line of a NodePool, with the fields of the log line."""
    names = ("dollarsPerHour", "dollarsToday", "dollarsThisMonth", "dollarsThisMonthAtThisPace", "idleDollarsPerHour", "onDemandDollarsPerHour")
    return line(ago, nodePool=pool, nodes=2, **dict.fromkeys(names, dollars))


def shown(title: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the log widget with this title."""
    [widget] = [widget for widget in dashboard.widgets(dashboard.values()) if widget["properties"].get("title") == title]
    return dashboard.query(widget["properties"]["query"], lines, NOW)


def test_the_picture_is_up_to_date() -> None:
    assert dashboard.PICTURE.read_text() == dashboard.draw(), "run make docs-update"


def test_totals_have_the_latest_line_of_each_node_pool() -> None:
    lines = [costs(600, "web", 1.0), costs(300, "web", 2.0), costs(290, "gpu", 4.0), costs(7200, "gone", 8.0)]
    [row] = shown("All NodePools, in dollars", lines)
    assert row["perHour"] == row["sinceMidnight"] == row["thisMonth"] == row["thisMonthAtThisPace"] == 6.0
    assert row["allNodes"] == 4, "a NodePool without a line in the last half hour is left out"


def test_node_pools_are_ordered_by_price() -> None:
    lines = [costs(300, "web", 2.0), costs(290, "gpu", 4.0)]
    assert [row["nodePool"] for row in shown("By NodePool, in dollars", lines)] == ["gpu", "web"]
    assert shown("Dollars an hour by NodePool", lines) == [{"nodePool": "gpu", "perHour": 4.0}, {"nodePool": "web", "perHour": 2.0}]


def test_only_warnings_and_errors_went_wrong() -> None:
    lines = [line(3, level="INFO"), line(2, level="WARN", event="claim-waits"), {**line(1, level="ERROR"), "@log": "/aws/lambda/other"}]
    assert [row["event"] for row in shown("Newest warnings and errors", lines)] == ["claim-waits"]


def test_money_is_first_then_pods_then_failures() -> None:
    widgets = dashboard.widgets(dashboard.values())
    headings = [widget["properties"]["markdown"] for widget in widgets if widget["type"] == "text"]
    assert headings == ["## What nodes cost", "## Pods that wait", "## What went wrong"]
    assert widgets == sorted(widgets, key=lambda widget: (widget["y"], widget["x"])), "the order of the file is that of the screen"


def test_widgets_do_not_overlap_and_fit_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for widget in dashboard.widgets(dashboard.values()):
        cells = {(x, y) for x in range(widget["x"], widget["x"] + widget["width"]) for y in range(widget["y"], widget["y"] + widget["height"])}
        assert not cells & taken and all(x < 24 for x, _ in cells), widget["properties"]
        taken |= cells


def test_every_metric_of_the_module_is_shown() -> None:
    module = (pages.ROOT / "terraform/observability.tf").read_text()
    published = dict(re.findall(r'^      (\w+) += "(\w+)"$', module, re.M))
    metrics = [metric for widget in dashboard.widgets(dashboard.values()) for metric in widget["properties"].get("metrics", [])]
    ours = {metric[1]: metric[4]["stat"] for metric in metrics if metric[0] == "nodeless"}
    assert len(published) > 20 and ours == published


def test_the_money_of_the_recording_is_possible() -> None:
    """On demand costs at least what was paid, and a day is a part of its month."""
    lines = [line for line in json.loads(dashboard.EXAMPLE.read_text())["lines"] if line["event"] == "costs-recorded"]
    assert len({line["nodePool"] for line in lines}) >= 3
    for line in lines:
        assert 0 <= line["idleDollarsPerHour"] <= line["dollarsPerHour"] <= line["onDemandDollarsPerHour"], line
        assert line["dollarsToday"] <= line["dollarsThisMonth"] <= line["dollarsThisMonthAtThisPace"], line


def test_the_recording_is_of_the_scenario_and_has_the_metrics_of_the_dashboard() -> None:
    example = json.loads(dashboard.EXAMPLE.read_text())
    assert example["recorded"] == {"scenario": recording.SCENARIO.name, "seed": recording.SEED, "periodSeconds": 300}
    assert example["metrics"].keys() == recording.statistics().keys()
    assert {len(values) for values in example["metrics"].values()} == {recording.PERIODS}


def test_periods_are_aggregated_as_the_dashboard_asks() -> None:
    end = 36 * recording.PERIOD
    at = lambda ago, **values: {"_aws": {"Timestamp": end - ago}, **values}  # noqa: E731
    found = recording.series([at(1, PendingPods=[3, 5], ClaimsCreated=2), at(2, ClaimsCreated=1), at(recording.PERIOD + 1, PendingPods=4), at(0, PendingPods=9)], end)
    assert found["PendingPods"][-3:] == [None, 4, 5], "the maximum; a line of the end belongs to the next period"
    assert found["ClaimsCreated"][-2:] == [0, 3], "the sum"
    assert recording.aggregated([float(value) for value in range(1, 11)], "p90") == 9.0


def test_the_fields_of_queries_are_those_of_the_example() -> None:
    # The example has the fields of the log line; a name that no line has is an error, and not an empty column.
    example = json.loads(dashboard.EXAMPLE.read_text())
    [row] = shown("All NodePools, in dollars", [{**one, "@timestamp": NOW} for one in example["lines"] if one["event"] == "costs-recorded"])
    assert row["perHour"] > 0


@pytest.mark.parametrize(
    "query",
    ["filter event like 'a'", "stats avg(nodes) as n", "parse @message 'a'", "stats sum(n) as n | stats sum(n) as n | stats sum(n) as n", "stats sum(other) as n"],
)
def test_a_query_that_is_not_understood_is_an_error(query: str) -> None:
    with pytest.raises(SystemExit):
        dashboard.query(f"SOURCE '{LOG}' | {query}", [line(1, n=1)], NOW)
