"""The queries of CloudWatch Logs Insights, of the CloudWatch dashboard and of Grafana's, have the documented syntax."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import logs_insights
import pages
import pytest
import test_dashboard


def of_grafana() -> list[str]:
    def found(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if value.get("queryMode") == "Logs":
                yield value["expression"].replace("$cluster", "example")
            for each in value.values():
                yield from found(each)
        if isinstance(value, list):
            for each in value:
                yield from found(each)

    return list(found(json.loads((pages.ROOT / "infra/grafana/dashboard.json").read_text())))


def of_cloudwatch() -> list[str]:
    widgets = test_dashboard.widgets()
    return [widget["properties"]["query"] for widget in widgets if widget["type"] == "log"]


def test_every_query_is_found() -> None:
    template = (pages.ROOT / "terraform/dashboard.json.tftpl").read_text()
    assert len(of_cloudwatch()) == template.count('"type": "log"') > 3 and len(of_grafana()) == 2


@pytest.mark.parametrize("query", of_cloudwatch() + of_grafana())
def test_a_query_has_the_documented_syntax(query: str) -> None:
    commands = logs_insights.check(query)
    assert "stats" in commands or "fields" in commands, "its columns are chosen"


@pytest.mark.parametrize(
    "query",
    [
        "fields @timestamp, @message | filter @message like /ERROR/ | sort @timestamp desc | limit 20",
        "stats count(*) by bin(5m)",
        "stats count() as n, pct(@duration, 95) by bin(30s), @log | sort n desc",
        "filter (cluster = 'a' or span.cluster = 'a') and not level in ['INFO', \"DEBUG\"]",
        "parse @message 'user=*, ms=*' as user, ms | stats avg(ms) by user",
        "parse @message /ms=(?<ms>\\d+)/ | display ms",
        "fields strlen(@message) > 10 as long, coalesce(a, b) | dedup long",
        "SOURCE 'a' | SOURCE 'b' | stats sum(a) as b by c | stats max(b)",
    ],
)
def test_what_is_documented_is_accepted(query: str) -> None:
    logs_insights.check(query)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("filter event == 'a'", "missing before"),
        ("filter event = ", "missing before"),
        ("filter a = 1 and", "missing before"),
        ("filter (a = 1", r"'\)' is missing"),
        ("filter event like a", "text or pattern"),
        ("filter event not 'a'", "neither in nor like"),
        ("filter avg(a) > 1", "no function avg"),
        ("filter length(a) > 1", "no function length"),
        ("filter now(1) > 1", "1 arguments"),
        ("stats mean(a)", "mean is no function of stats"),
        ("stats sum(a, b)", "2 arguments"),
        ("stats sum(a) as b group by c", r"'\|' is missing"),
        ("select a", "no command select"),
        ("fields a | where a = 1", "no command where"),
        ("sort a descending", r"'\|' is missing"),
        ("limit 20000", "limit takes"),
        ("parse @message 'a=*'", "'as' is missing"),
        ("stats sum(a) as a | stats sum(a) as a | stats sum(a)", "at most two"),
        ("stats sum(a) as b by c | sort b | stats sum(b)", "only allowed after"),
        ("fields a | SOURCE 'b'", "SOURCE is not first"),
        ("filter a = 'b", "not understood"),
    ],
)
def test_what_is_not_documented_is_refused(query: str, why: str) -> None:
    with pytest.raises(logs_insights.Wrong, match=why):
        logs_insights.check(query)
