"""Statements of docs/compare.md about other software have a source."""

from __future__ import annotations

import re

import pages

TEXT = (pages.DOCS / "compare.md").read_text()
CITED = re.compile(r"\[\\\[(\d+)\\\]\]\(#sources\)")


def table() -> list[list[str]]:
    """The rows of the comparison, by cells."""
    before_cases = TEXT.partition("\n## ")[0]
    lines = [line for line in before_cases.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_statement_about_others_has_a_source() -> None:
    head, *rows = table()
    assert len(head) == 6 and len(rows) > 15
    without = [f"{row[0]}: {head[place]}: {row[place]}" for row in rows for place in range(2, 6) if not CITED.search(row[place]) and row[place] != "not published"]
    assert not without, "\n".join(without)


def test_each_source_exists_and_is_used() -> None:
    listed = re.findall(r"^(\d+)\. .*(?:\n {3}.*)*", TEXT, re.M)
    entries = dict(re.findall(r"^(\d+)\. ((?:.*)(?:\n {3,4}.*)*)", TEXT, re.M))
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    assert all("<https://" in entry for entry in entries.values()), entries
    assert set(CITED.findall(TEXT)) == set(entries), "a source is not used, or not listed"


def test_a_cell_without_a_source_is_found() -> None:
    assert not CITED.search("as pods on its own nodes") and CITED.search("on AWS's side [\\[3\\]](#sources)")
