#!/usr/bin/env python3
"""A preprocessor of mdBook: links from a page to a file outside of docs/ become links to the repository, and those to a README.md
links to the index.html that mdBook makes of it.

In the repository such links are relative, so that they work there and at every commit; the site contains docs/ alone.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pages import LINK, ROOT, prose  # noqa: E402


def repository() -> str:
    """The address of the repository, as the crates state it."""
    found = re.search(r'^repository = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)
    if not found:
        raise SystemExit("Cargo.toml has no repository")
    return found[1]


def elsewhere(page: str, target: str) -> str | None:
    """The address that a link of a page in docs/ has on the site, if it is another."""
    if re.match(r"[a-z]+:|#", target):
        return None
    path, _, anchor = target.partition("#")
    place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    if place.startswith("docs/"):
        is_index = posixpath.basename(place) == "README.md"
        return target.replace("README.md", "index.md", 1) if is_index else None
    return in_repository(place, anchor, "main")


def in_repository(place: str, anchor: str, revision: str) -> str:
    """The address of a file or folder in the repository at a branch or commit."""
    kind = "tree" if (ROOT / place).is_dir() else "blob"
    return f"{repository()}/{kind}/{revision}/{place}" + (f"#{anchor}" if anchor else "")


def rewritten(page: str, text: str, address_of: Callable[[str, str], str | None] = elsewhere) -> str:
    """The text with the targets of links replaced for which a page has another address, code excepted."""
    lines = text.split("\n")
    for number, line in list(prose(text)):
        def replace(found: re.Match[str]) -> str:
            address = address_of(page, found[1])
            return found[0] if address is None else found[0].replace(f"]({found[1]})", f"]({address})")

        lines[number - 1] = LINK.sub(replace, line)
    return "\n".join(lines)


def walk(items: list) -> None:
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                chapter["content"] = rewritten(chapter["source_path"] or chapter["path"], chapter["content"])
            walk(chapter["sub_items"])


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2:3] == ["html"] else 1)
    _, book = json.load(sys.stdin)
    walk(book["items"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
