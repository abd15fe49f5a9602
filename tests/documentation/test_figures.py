"""Prices of nodeless on other pages are those of docs/cost.md."""

from __future__ import annotations

import re

import pages

# A month without monitoring, and what monitoring adds.
ROWS = ["**total without monitoring**", "CloudWatch: 3 metrics, 16 alarms on 21 metrics", "the same, in an account with an unused free tier"]


def cells(row: str) -> list[float]:
    """The dollars of a row of docs/cost.md: with 100 and with 1,000 nodes, each with one and with 20 pods a node."""
    line = next(line for line in (pages.DOCS / "cost.md").read_text().splitlines() if line.startswith(f"| {row}"))
    return [float(dollars) for dollars in re.findall(r"\$([\d.]+)", line)]


def test_prices_on_other_pages_are_those_of_the_measurement() -> None:
    totals, monitoring, free = (cells(row) for row in ROWS)
    known = {*totals, *monitoring, *free, *(one + two for one, two in zip(totals, monitoring, strict=True))}
    readme = (pages.ROOT / "README.md").read_text().partition("\n## Cost\n")[2].partition("\n## ")[0]
    compared = next(line for line in (pages.DOCS / "compare.md").read_text().splitlines() if line.startswith("| price beside the nodes |"))
    stated = {float(dollars) for text in (readme, compared.split("|")[2]) for dollars in re.findall(r"\$([\d.]+\d)", text)}
    # Three dollars a month are the list price of a dashboard.
    assert {round(one, 2) for one in stated - {3.0}} <= {round(one, 2) for one in known}, stated
    assert set(totals) <= stated


def test_summaries_round_the_measurement() -> None:
    assert {round(total) for total in cells(ROWS[0])[:2]} == {2}, "of 100 nodes"
    readme = (pages.ROOT / "README.md").read_text().partition("\n## ")[0]
    assert "the functions cost about $2 a month" in readme
    assert "about two dollars a month" in (pages.DOCS / "faq.md").read_text()
