"""The price of nodeless is stated in the same words everywhere, and is that of docs/benchmarks/cost.md; tables of measurements agree with their files."""

from __future__ import annotations

import re

import benchmarks
import pages

PRICE = "about two dollars a month for 100 nodes, alarms apart"
MEASURED = (pages.DOCS / "benchmarks/cost.md").read_text()


def cells(row: str) -> list[float]:
    """The dollars of a row of docs/benchmarks/cost.md: with 100 and with 1,000 nodes, each with one and with 20 pods a node."""
    line = next(line for line in MEASURED.splitlines() if line.startswith(f"| {row}"))
    return [float(dollars) for dollars in re.findall(r"\$([\d.]+)", line)]


def words(text: str) -> str:
    return " ".join(text.split()).lower()


def test_the_price_is_stated_in_the_same_words() -> None:
    assert {round(total) for total in cells("**total without monitoring**")[:2]} == {2}, "of 100 nodes"
    assert {round(total) for total in cells("the same with assumed times of AWS")[:2]} == {2}, "of 100 nodes, and calls that take time"
    for page in (pages.ROOT / "README.md", pages.DOCS / "compare.md", pages.DOCS / "benchmarks/cost.md"):
        assert PRICE in words(page.read_text()), page


def test_no_other_page_has_an_amount_of_the_measurement() -> None:
    amounts = {f"${total:.2f}" for total in cells("**total without monitoring**")}
    others = [path for path in [*pages.pages(), pages.ROOT / "README.md", pages.ROOT / "terraform/README.md"] if path.parent.name != "benchmarks"]
    stated = [(path.name, amount) for path in others for amount in amounts if re.search(re.escape(amount) + r"(?!\d)", path.read_text())]
    assert not stated, f"write {PRICE!r}: {stated}"


def test_tables_of_measurements_are_those_of_their_files() -> None:
    for path, content in benchmarks.generated().items():
        assert path.read_text() == content, f"{path.name} is out of date: run make docs-update"
    assert benchmarks.span([{"a": "1.20"}, {"a": "1.003"}], "a") == "1.003 to 1.20"
