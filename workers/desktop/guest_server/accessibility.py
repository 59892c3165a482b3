"""What do the programs say is on the screen? AT-SPI's tree as OSWorld's XML.

`python3 -m guest_server.accessibility`, as the user in its session: prints the tree. In an interpreter of its own, since
the library keeps what it saw for as long as its process lives.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from typing import Any

ROOT = "https://accessibility.ubuntu.example.org/ns/"
SPACES = {
    "st": "state",
    "attr": "attributes",
    "cp": "component",
    "doc": "document",
    "docattr": "document/attributes",
    "txt": "text",
    "val": "value",
    "act": "action",
}
MAX_DEPTH = 50
MAX_CHILDREN = 1024
"""Of one element: a spreadsheet has millions of cells."""
CELLS = (64, 26)
"""Rows and columns that are told of a table which manages its own children."""
AS_OSWORLD = {"Chromium": "Google Chrome"}
"""Programs that stand here for those of OSWorld's desktop: its getters look for the address bar by the program's name."""
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def q(space: str, name: str) -> str:
    """A qualified name."""
    return f"{{{ROOT}{SPACES[space]}}}{name}"


def clean(text: str) -> str:
    """`text` without what XML cannot hold."""
    return NO_XML.sub("", text)


def tag(role: str) -> str:
    """An element's name from a role's."""
    return re.sub(r"[^\w.\-]", "-", role.strip()) or "unknown"


def add(parent: ElementTree.Element, node: Any, atspi: Any, depth: int) -> None:
    """Add `node` and all below it to `parent`. What a program does not answer is left out."""
    element = ElementTree.SubElement(parent, tag(node.get_role_name() or "unknown"))
    name = clean(node.get_name() or "")
    element.set("name", AS_OSWORLD.get(name, name) if depth == 0 else name)
    states = {state.value_nick for state in node.get_state_set().get_states()}
    for state in states:
        element.set(q("st", state), "true")
    with suppress(Exception):
        for name, value in (node.get_attributes() or {}).items():
            element.set(q("attr", tag(name)), clean(value))
    with suppress(Exception):
        if node.get_component_iface() and {"visible", "showing"} <= states:
            box = node.get_extents(atspi.CoordType.SCREEN)
            element.set(q("cp", "screencoord"), str((box.x, box.y)))
            element.set(q("cp", "windowcoord"), str(_at(node, atspi)))
            element.set(q("cp", "parentcoord"), str(_at(node, atspi)))
            element.set(q("cp", "size"), str((box.width, box.height)))
    with suppress(Exception):
        if node.get_text_iface():
            element.text = clean(atspi.Text.get_text(node, 0, atspi.Text.get_character_count(node)))
    with suppress(Exception):
        if node.get_value_iface():
            for name in ("minimum_value", "maximum_value", "current_value"):
                word = {"minimum_value": "min", "maximum_value": "max", "current_value": "value"}[name]
                element.set(q("val", word), str(getattr(atspi.Value, f"get_{name}")(node)))
    with suppress(Exception):
        if node.get_action_iface():
            for number in range(node.get_n_actions()):
                name = tag(node.get_action_name(number))
                element.set(q("act", f"{name}_desc"), clean(node.get_action_description(number)))
                element.set(q("act", f"{name}_kb"), clean(node.get_key_binding(number)))
    if depth < MAX_DEPTH:
        for child in _children(node, states):
            with suppress(Exception):
                add(element, child, atspi, depth + 1)


def _at(node: Any, atspi: Any) -> tuple[int, int]:
    box = node.get_extents(atspi.CoordType.WINDOW)
    return box.x, box.y


def _children(node: Any, states: set[str]) -> list[Any]:
    """The children to tell of. A sheet's are its first cells: it makes them as they are asked for."""
    if "manages-descendants" in states and node.get_table_iface():
        rows, columns = min(node.get_n_rows(), CELLS[0]), min(node.get_n_columns(), CELLS[1])
        return [node.get_accessible_at(row, column) for row in range(rows) for column in range(columns)]
    return [node.get_child_at_index(number) for number in range(min(node.get_child_count(), MAX_CHILDREN))]


def main() -> None:
    """Print the tree."""
    import gi

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi

    for prefix, space in SPACES.items():
        ElementTree.register_namespace(prefix, ROOT + space)
    root = ElementTree.Element("desktop-frame")
    desktop = Atspi.get_desktop(0)
    for number in range(desktop.get_child_count()):
        with suppress(Exception):
            add(root, desktop.get_child_at_index(number), Atspi, 0)
    sys.stdout.write(ElementTree.tostring(root, encoding="unicode"))


if __name__ == "__main__":
    main()
