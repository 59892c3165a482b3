"""Do links on the pages lead somewhere: to a file that is there, and to a heading that it has?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONG = 130
"""Lines from which on a page with sections begins with a list of them."""


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path, level: str = "#+") -> list[str]:
    """What links name the headings by, as GitHub makes it of their words."""
    headings = re.findall(rf"^{level} (.+)$", prose(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def links(text: str) -> list[str]:
    """The links of a text, but for those to other sites."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files from the page's folder, and headings by their words."""
    for link in links(prose(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_a_long_page_begins_with_what_is_on_it(page: Path) -> None:
    """Its sections in order, before the first of them."""
    sections = anchors(page, "##")
    head = prose(page).partition("\n## ")[0]
    if sections and len(page.read_text(encoding="utf-8").splitlines()) >= LONG:
        listed = [link[1:] for link in links(head) if link[0] == "#" and link[1:] in sections]
        assert listed[-len(sections) :] == sections
