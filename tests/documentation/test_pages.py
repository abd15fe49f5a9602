"""Every page is in the summary, every link and anchor exists, and every block of code has the language that it names."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pages
import pytest
import repository_links
import yaml

# Documents outside of docs/ whose links are checked too.
OTHERS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "terraform/README.md", "tests/aws/README.md", "tests/instructions/README.md"]
LANGUAGES = {"sh", "bash", "console", "yaml", "json", "hcl", "text", "rust", "python", "markdown"}


def relative(path: Path) -> str:
    return str(path.relative_to(pages.ROOT))


def documents() -> list[Path]:
    return [*pages.pages(), *(pages.ROOT / name for name in OTHERS)]


def test_the_summary_lists_every_page_once() -> None:
    listed = [target for _, target in pages.links((pages.DOCS / "SUMMARY.md").read_text())]
    # Lines of nested chapters are indented by four spaces, which elsewhere is code.
    listed += re.findall(r"^ {4,}- \[.+\]\((.+)\)$", (pages.DOCS / "SUMMARY.md").read_text(), re.M)
    present = [str(path.relative_to(pages.DOCS)) for path in pages.pages() if path.name != "SUMMARY.md"]
    missing, unknown = set(present) - set(listed), set(listed) - set(present)
    assert not missing and not unknown, f"not in docs/SUMMARY.md: {sorted(missing)}; listed and not there: {sorted(unknown)}"
    assert len(listed) == len(set(listed)), "a page is listed twice"


@pytest.mark.parametrize("path", documents(), ids=relative)
def test_no_link_is_broken(path: Path) -> None:
    text = path.read_text()
    wrong = [f"{relative(path)}:{line}: {target}: {why}" for line, target in pages.links(text) if (why := broken(path, target))]
    assert not wrong, "\n".join(wrong)


def broken(path: Path, target: str) -> str | None:
    """Why a link is broken, or None. Addresses of other hosts are not tried."""
    if re.match(r"https?://|mailto:", target):
        return None
    place, _, anchor = target.partition("#")
    file = (path.parent / place).resolve() if place else path
    if not file.exists():
        return "there is no such file"
    if anchor and file.suffix == ".md" and anchor not in pages.anchors(file.read_text()):
        return f"there is no such heading; there are {', '.join(pages.anchors(file.read_text()))}"
    return None


@pytest.mark.parametrize("path", pages.pages(), ids=relative)
def test_a_page_has_one_title_and_blocks_that_can_be_read(path: Path) -> None:
    text = path.read_text()
    titles = [line for _, line in pages.prose(text) if re.match(r"# ", line)]
    parts = {"SUMMARY.md"}
    assert len(titles) == 1 or path.name in parts, f"{relative(path)} has {len(titles)} titles"
    for block in pages.code(text):
        where = f"{relative(path)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block without a known language: {block.language!r}"
        if block.language == "yaml":
            assert [each for each in yaml.safe_load_all(block.text) if each], where
        if block.language == "json":
            json.loads(block.text)


def test_every_picture_and_page_is_used() -> None:
    used = {(path.parent / target.partition("#")[0]).resolve() for path in pages.pages() for _, target in pages.links(path.read_text())}
    pictures = set(pages.DOCS.rglob("*.svg"))
    assert pictures and pictures <= used, f"no page shows {pictures - used}"


def test_links_out_of_the_site_become_links_to_the_repository() -> None:
    home = repository_links.repository()
    of = repository_links.rewritten
    assert of("plan.md", "[a](../ARCHITECTURE.md#layers-and-crates)") == f"[a]({home}/blob/main/ARCHITECTURE.md#layers-and-crates)"
    assert of("design/no-vpc.md", "[a](../../terraform)") == f"[a]({home}/tree/main/terraform)"
    assert of("start.md", "[a](design/README.md#x) [b](../README.md)") == f"[a](design/index.md#x) [b]({home}/blob/main/README.md)"
    unchanged = "[a](../plan.md) [b](https://example.com/x) [c](#here)\n```sh\n[d](../../x)\n```"
    assert of("design/no-vpc.md", unchanged) == unchanged


# Tests that name a page which does not exist.
ABOUT_NO_PAGE = {"tests/tests/upstream/tests.rs", "tests/documentation/test_pages.py"}
PAGE_IN_CODE = re.compile(r"(?<![\w./])docs/[\w/-]+\.(?:md|csv|json|svg|py)\b(?:#([a-z0-9-]+))?")


def test_pages_that_code_names_exist() -> None:
    """Messages, alarms and comments name a page and its heading, of the project or of their crate."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.rs", "*.py", "*.tf", "*.hcl", "*.yaml", "*.yml", "*.sh", "*.tftpl", "Makefile"], cwd=pages.ROOT, check=True, capture_output=True, text=True)
    found, wrong = 0, []
    for name in listed.stdout.split("\0"):
        file = pages.ROOT / name
        if not name or name in ABOUT_NO_PAGE or not file.is_file():
            continue
        for match in PAGE_IN_CODE.finditer(file.read_text()):
            found += 1
            path = match[0].partition("#")[0]
            target = next((folder / path for folder in [pages.ROOT, *file.parents] if (folder / path).is_file()), None)
            if target is None or (match[1] and match[1] not in pages.anchors(target.read_text())):
                wrong.append(f"{name}: {match[0]}")
    assert found > 100 and not wrong, "\n".join(wrong)
