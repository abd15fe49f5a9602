"""Checks docs/reference/aws.csv without AWS: each row has existing files, a status, and an address if it is documented; and everything that
tests/aws observes has a row.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aws import untried  # noqa: E402
from tools.terraform import ROOT  # noqa: E402

TABLE = "docs/reference/aws.csv"
PAGES = "docs/reference/aws-pages.csv"
HEADER = ["subject", "id", "claim", "relied on in", "status", "source", "simulation"]
STATUSES = ("documented", "inferred", "unknown")
SIMULATIONS = ("enforced", "stricter", "more generous", "absent")
# The ways in which pages of AWS were read.
COPIES = ("model: ", "repository: ", "page: ", "not read")
# Rows also contain paths of other projects; paths of this project begin like this.
OUR_FOLDERS = ("shared/", "functions/", "cli/", "terraform/", "infra/", "events/", "tests/", "docs/", "ARCHITECTURE.md")


@dataclass(frozen=True)
class Row:
    """A row of the table, without its subject."""

    name: str
    claim: str
    relied_on: str
    status: str
    source: str
    simulation: str


def rows(text: str) -> list[Row]:
    """The rows of the table, as the text of its file."""
    head, *found = csv.reader(io.StringIO(text))
    assert head == HEADER, f"{TABLE} has the columns {head}"
    assert all(len(cells) == len(HEADER) for cells in found), f"{TABLE}: a row has another number of cells"
    return [Row(*cells[1:]) for cells in found]


def files(text: str) -> list[str]:
    """The files of this project in a text."""
    return [name for name in re.findall(r"`([\w./-]+)`", text) if name.startswith(OUR_FOLDERS)]


def check_row(row: Row) -> None:
    where = f"{TABLE}: {row.name}"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", row.name), f"{where}: an id is small letters, digits and dashes"
    assert row.claim.endswith("."), f"{where}: the claim is one sentence"
    assert files(row.relied_on), f"{where} has no file that relies on it"
    for file in files(" ".join((row.relied_on, row.source, row.simulation))):
        assert (ROOT / file).is_file(), f"{where}: {file} does not exist"
    assert row.status in STATUSES, f"{where}: its status is {row.status!r}, not one of {', '.join(STATUSES)}"
    assert row.source, f"{where}: the source is missing: what it is inferred from, or why it is unknown"
    if row.status == "documented":
        assert re.search(r"https://[\w.-]+/\S+", row.source), f"{where} is documented, but has no address"
    assert row.simulation.startswith(SIMULATIONS), f"{where}: simulation is {row.simulation!r}, which does not begin with any of {', '.join(SIMULATIONS)}"


def check_rows() -> None:
    """Checks each row, and that ids are unique."""
    found = rows((ROOT / TABLE).read_text())
    assert found, f"{TABLE} has no rows"
    for row in found:
        check_row(row)
    names = [row.name for row in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    assert not doubled, f"{TABLE} has duplicate ids: {', '.join(doubled)}"


def check_observed() -> None:
    """Every observation in the code of the first hour has a row with the same id, and every row is either observed or has a reason why not."""
    names = {row.name for row in rows((ROOT / TABLE).read_text())}
    code = "".join(file.read_text() for file in sorted((ROOT / "tests/aws").glob("*.py")))
    observed = set(re.findall(r'\bobserve\(\s*"([^"]+)"', code)) | set(re.findall(r'^    "([a-z0-9-]+)": \w+,$', code, re.M))
    observed |= {name for several in re.findall(r"for assumption in \((.+)\):", code) for name in re.findall(r'"([^"]+)"', several)}
    assert observed, "tests/aws observes no assumption"
    assert observed <= names, f"tests/aws observes {sorted(observed - names)}, which {TABLE} does not have"
    reasons = [name for several in untried.BY_REASON.values() for name in several]
    assert len(reasons) == len(set(reasons)), "tests/aws/untried.py has an assumption twice"
    assert not observed & set(reasons), f"tests/aws observes {sorted(observed & set(reasons))}, and tests/aws/untried.py explains why not"
    assert set(reasons) <= names, f"tests/aws/untried.py has {sorted(set(reasons) - names)}, which {TABLE} does not have"
    open_ = names - observed - set(reasons)
    assert not open_, f"tests/aws neither observes {sorted(open_)} nor explains in tests/aws/untried.py why not"


def addresses(text: str) -> list[str]:
    """The pages of AWS's documentation in a text."""
    return [address.rstrip(".:") for address in re.findall(r"https://docs\.aws\.amazon\.com/[^\s|;,)]+", text)]


def check_pages() -> None:
    """Every page of AWS that is cited is listed once, with the copy in which it was read, and no other page is."""
    cited = " | ".join(f"{row.claim} | {row.source} | {row.simulation}" for row in rows((ROOT / TABLE).read_text()))
    with (ROOT / PAGES).open(newline="") as file:
        pages = [(row["page"], row["read in"]) for row in csv.DictReader(file)]
    names = [page for page, _ in pages]
    missing, unused = set(addresses(cited)) - set(names), set(names) - set(addresses(cited))
    assert not missing and not unused, f"{PAGES} lacks {sorted(missing)}, and nothing cites {sorted(unused)}"
    assert len(names) == len(set(names)), f"{PAGES} lists a page twice"
    for page, copy in pages:
        assert copy.startswith(COPIES), f"{PAGES}: {page} was read in {copy!r}, which does not begin with any of {', '.join(COPIES)}"


def check_regions() -> None:
    """docs/compatibility.md and the module list the same regions without Function URLs and without loop detection as the rows."""
    region = r"\b[a-z]{2}-[a-z]+-\d\b"
    claims = {row.name: set(re.findall(region, row.claim)) for row in rows((ROOT / TABLE).read_text())}
    pages = (ROOT / "docs/compatibility.md").read_text()
    module = (ROOT / "terraform/regions.tf").read_text()
    for name, title in (("lambda-url-regions", "Function URLs"), ("lambda-recursion-regions", "loop detection")):
        section = pages.partition(f"\n## Regions without {title}\n")[2].partition("\n## ")[0]
        named, listed = claims[name], set(re.findall(region, section))
        assert named and named == listed, f"{TABLE} and docs/compatibility.md differ in the regions {sorted(named ^ listed)} without {title}"
        listed = re.search(rf"without_{title.lower().replace(' ', '_')} += \[([^]]+)\]", module)
        assert listed and set(re.findall(region, listed[1])) == named, f"terraform/regions.tf has other regions without {title}"


def check_all() -> None:
    check_rows()
    check_regions()
    check_pages()
    check_observed()


if __name__ == "__main__":
    check_all()
