#!/usr/bin/env python3
"""Checks the built site: every link and anchor leads to a page of it, and nothing is loaded from another host.

    python3 scripts/docs/check_site.py target/book
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The attributes by which a browser loads something on its own.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href"), ("object", "data")}


class Page(HTMLParser):
    """The ids, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif (tag, name) in LOADED and value:
                self.loads.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


def missing(site: Path, page: Path, target: str, pages: dict[Path, Page]) -> str | None:
    """Why a link of a page is broken, or None."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    place = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if not place.is_file():
        return f"{page.relative_to(site)}: {target} does not exist"
    if parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].ids:
        return f"{page.relative_to(site)}: {target} has no such anchor"
    return None


def problems(site: Path) -> list[str]:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    # The addresses in 404.html are absolute, because it is served at any path.
    checked = {path: page for path, page in pages.items() if path.name != "404.html"}
    found = [why for path, page in checked.items() for target in page.links + page.loads if (why := missing(site, path, target, pages))]
    outside = [(path, load) for path, page in pages.items() for load in page.loads if urlsplit(load).netloc]
    styles = [(path, "url") for path in site.rglob("*.css") if "url(http" in path.read_text() or "@import" in path.read_text()]
    return found + [f"{path.relative_to(site)} loads {what} from outside" for path, what in outside + styles]


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    found = problems(site)
    for needed in ("index.html", "searchindex-*.js"):
        if not list(site.glob(needed)):
            found.append(f"{site} has no {needed}")
    for line in sorted(set(found)):
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
