"""The check of the built site finds links and anchors that are broken, and what is loaded from another host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import check_site
import pages
import pytest

PAGE = '<html><head><link href="style.css"></head><body><h1 id="top">A</h1>{body}</body></html>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site without faults: two pages, a style, the search index, and a page for addresses that do not exist."""
    (tmp_path / "guide").mkdir()
    (tmp_path / "style.css").write_text("h1 { color: black }")
    (tmp_path / "guide/style.css").write_text("")
    (tmp_path / "searchindex-1a2b.js").write_text("")
    (tmp_path / "index.html").write_text(PAGE.format(body='<a href="guide/one%20two.html#top">to</a> <a href="https://example.com/x">out</a> <a href="#top">up</a>'))
    (tmp_path / "guide/one two.html").write_text(PAGE.format(body='<a href="../index.html">back</a>'))
    (tmp_path / "404.html").write_text('<html><body><script src="/elsewhere.js"></script></body></html>')
    return tmp_path


def found(site: Path) -> list[str]:
    return check_site.problems(site.resolve())


def test_a_site_without_faults_has_no_findings(site: Path) -> None:
    assert found(site) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<a href="gone.html">x</a>', "index.html: gone.html does not exist"),
        ('<a href="guide/one%20two.html#no">x</a>', "index.html: guide/one%20two.html#no has no such anchor"),
        ('<a href="#no">x</a>', "index.html: #no has no such anchor"),
        ('<img src="picture.svg">', "index.html: picture.svg does not exist"),
        ('<script src="https://cdn.example/x.js"></script>', "index.html loads https://cdn.example/x.js from outside"),
        ('<img src="//cdn.example/x.svg">', "index.html loads //cdn.example/x.svg from outside"),
    ],
)
def test_a_fault_of_a_page_is_found(site: Path, body: str, expected: str) -> None:
    (site / "index.html").write_text(PAGE.format(body=body))
    assert found(site) == [expected]


@pytest.mark.parametrize("style", ["@import 'other.css';", "h1 { background: url(https://cdn.example/x.png) }"])
def test_a_style_loads_nothing_from_outside(site: Path, style: str) -> None:
    (site / "style.css").write_text(style)
    assert found(site) == ["style.css loads url from outside"]


def test_what_a_page_loads_from_outside_is_found_also_in_404(site: Path) -> None:
    (site / "404.html").write_text('<html><body><script src="https://cdn.example/x.js"></script></body></html>')
    assert found(site) == ["404.html loads https://cdn.example/x.js from outside"]


def test_the_command_fails_for_a_fault_and_for_a_site_without_search(site: Path) -> None:
    def run() -> tuple[int, str]:
        done = subprocess.run([sys.executable, pages.ROOT / "scripts/docs/check_site.py", site], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert run() == (0, "")
    (site / "searchindex-1a2b.js").unlink()
    code, errors = run()
    assert code == 1 and "has no searchindex-*.js" in errors
