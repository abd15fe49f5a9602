"""The configuration of the CloudWatch exporter requests the metrics that the functions publish."""

from __future__ import annotations

import re

import pages
import yaml

CONFIGURATION = pages.ROOT / "infra/prometheus/yace.yaml"


def published() -> dict[str, str]:
    """The statistic of each metric, by the generated page."""
    page = (pages.DOCS / "reference/metrics.md").read_text()
    return dict(re.findall(r"^\| `(\w+)` \| [^|]* \| `(\w+)` \|", page, re.M))


def test_the_exporter_requests_every_metric_with_the_statistic_of_the_dashboard() -> None:
    [job] = yaml.safe_load(CONFIGURATION.read_text())["customNamespace"]
    assert job["namespace"] == "nodeless" and job["dimensionNameRequirements"] == ["Cluster"]
    requested = [(metric["name"], *metric["statistics"]) for metric in job["metrics"]]
    assert requested == list(published().items()) and len(requested) > 20


def test_zero_is_the_value_of_sums_alone() -> None:
    # A sum without data points counts nothing. Any other statistic of nothing is unknown.
    [job] = yaml.safe_load(CONFIGURATION.read_text())["customNamespace"]
    for metric in job["metrics"]:
        assert metric.get("nilToZero", False) == (metric["statistics"] == ["Sum"]), metric


def test_the_page_names_metrics_as_the_exporter_does() -> None:
    # YACE: pkg/promutil/migrate.go, BuildMetricName, and prometheus.go, PromString.
    def snake(name: str) -> str:
        return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()

    names = {f"aws_nodeless_{snake(name)}_{statistic.lower()}" for name, statistic in published().items()}
    mentioned = set(re.findall(r"aws_nodeless_[a-z0-9_]+", (pages.DOCS / "operate/prometheus.md").read_text()))
    assert mentioned and mentioned <= names, mentioned - names
