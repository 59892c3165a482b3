"""Which pages of docs/ follow from the code? `python docs/generate.py` writes them; `--check` fails where one has drifted."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import msgpack
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from wire_fields import INTRO, MEANINGS

from legato_rl import parts, records
from legato_rl.broker import groups
from legato_rl.broker.proxy import calls
from legato_rl.cli.main import COMMANDS, legato_rl
from legato_rl.frames import MAX_BODY, MOST_IN_LIST, MOST_IN_MAP, MOST_ITEMS, WIRE_VERSION, Message, Part, encode
from legato_rl.wire import control, orders, policy, refused, rows

DOCS = Path(__file__).resolve().parent
GOLDEN = DOCS.parent / "tests" / "unit" / "golden_wire.json"
"""The bodies of one example of each message (tests/wire_examples.py)."""
WIDTH = 100
"""Columns of the commands' help, and of lists of sections."""
NO_BREAK = "\N{NO-BREAK SPACE}"
"""Keeps a link on one line while the lines of a list are made."""
NOTICE = "<!-- Made by docs/generate.py from the code: change that, then run `make docs`. -->\n"

ELSEWHERE = {
    records.StepResponse: "rollouts.md#response",
    records.PromptRecord: "rollouts.md#prompt",
    records.ModelUse: "rollouts.md#model",
    records.Outcome: "rollouts.md#outcomes-and-statuses",
    records.Status: "rollouts.md#outcomes-and-statuses",
}
"""Parts of messages that the record format explains."""
NAMES: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "nil", Any: "anything"
}  # fmt: skip


# --- cli.md ----------------------------------------------------------------------------------------------------------


def cli() -> str:
    """Every command's --help."""
    top = click.Context(legato_rl, info_name="legato-rl", terminal_width=WIDTH, **legato_rl.context_settings)
    parts = [
        NOTICE,
        "# Commands\n",
        "`legato rl …` takes the same commands. The exit codes are in [operating.md](operating.md#exit-codes).\n",
        _help("legato-rl", legato_rl, top),
    ]
    for name in COMMANDS:
        command = legato_rl.get_command(top, name)
        assert command is not None
        context = click.Context(command, top, name, **command.context_settings)
        parts.append(_help(f"legato-rl {name}", command, context))
        for part, one in command.commands.items() if isinstance(command, click.Group) else ():
            parts.append(
                _help(f"legato-rl {name} {part}", one, click.Context(one, context, part, **one.context_settings), "###")
            )
    return _with_contents("\n".join(parts))


def _help(title: str, command: click.Command, context: click.Context, level: str = "##") -> str:
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{level} {title}\n\n```\n{text}\n```\n"


# --- protocol.md -----------------------------------------------------------------------------------------------------


def protocol() -> str:
    """Every wire message, and how to speak them."""
    example = control.StatusAsk(id="7f3a")
    frames = zip(("version", "kind", "body"), encode(example), strict=True)
    intro = INTRO.format(
        version=WIRE_VERSION.decode(),
        max_body=f"{MAX_BODY // 2**20} MiB",
        bounds=f"over {MOST_IN_LIST:,} values in a list, {MOST_IN_MAP:,} fields in a map, or {MOST_ITEMS:,} values in all",
        example=example,
        frames="\n".join(line for name, frame in frames for line in _hex(name, frame)),
        script=(DOCS / "examples" / "ask_status.py").read_text(encoding="utf-8"),
    )
    return _with_contents("\n".join([NOTICE, intro, *_messages()]))


def _messages() -> list[str]:
    """A section per socket, then the parts that messages share."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    shared = [kind for kind in _classes(parts) if issubclass(kind, Part)] + [records.FeedRow, records.RolloutKey]
    page = []
    for module in (refused, control, orders, policy, rows):
        titled = re.search(r"^# -+ (.+?) -+$", inspect.getsource(module), re.M)
        title, _, who = (titled[1] if titled else "Any socket").partition(": ")
        page.append(f"## {title}\n" + (f"\n{_arrows(who)[:1].upper()}{_arrows(who)[1:]}.\n" if who else ""))
        for kind in (kind for kind in _classes(module) if issubclass(kind, Message)):
            who, _, text = _doc(kind).partition(": ")
            if kind.__name__ not in golden:
                sys.exit(f"{GOLDEN.name} has no {kind.__name__}: add one to tests/wire_examples.py, and run that")
            example = _example(kind, bytes.fromhex(golden[kind.__name__]))
            page.append(f"### {kind.__name__}\n\n**{_arrows(who)}**: {text}\n\n{_fields(kind)}\n{example}")
    page.append("## Parts\n\nMaps inside of messages.\n")
    page += [f"### {part.__name__}\n\n{_doc(part)}\n\n{_fields(part)}" for part in shared]
    return page


def _classes(module: types.ModuleType) -> list[type[Any]]:
    """The classes that a module makes, in its order."""
    return [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == module.__name__]


def _example(kind: type[Message], body: bytes) -> str:
    """A body as JSON, and all frames of a message of it in hex; blobs would follow."""
    fields = json.dumps(msgpack.unpackb(body, unicode_errors="surrogatepass"))
    frames = zip(("version", "kind", "body"), (WIRE_VERSION, kind.kind, body), strict=True)
    lines = [line for name, frame in frames for line in _hex(name, frame)]
    return "\n".join(["```", *textwrap.wrap(fields, WIDTH, break_on_hyphens=False), "", *lines, "```", ""])


def _hex(name: str, frame: bytes) -> list[str]:
    """A frame in hex, 32 bytes a line, after its name."""
    lines = [frame[start : start + 32].hex(" ") for start in range(0, len(frame), 32)]
    return [f"{'' if place else name:8} {line}" for place, line in enumerate(lines)]


def _doc(kind: type[Any]) -> str:
    return inspect.getdoc(kind) or ""


def _arrows(text: str) -> str:
    return text.replace("<->", "↔").replace("->", "→")


def _fields(kind: type[BaseModel]) -> str:
    rows = [f"| {_field_row(kind, name, field)} |" for name, field in kind.model_fields.items()]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows, ""])


def _field_row(kind: type[BaseModel], name: str, field: FieldInfo) -> str:
    name = field.alias or name
    said = attribute_docs(kind).get(name)
    meaning = said[:1].lower() + said[1:].rstrip(".") if said else _meaning(kind.__name__, name)
    optional = "" if field.is_required() else ", may be left out"
    return f"`{name}` | {type_name(field.annotation)}{optional} | {meaning}"


USED: set[str] = set()


def _meaning(kind: str, field: str) -> str:
    key = f"{kind}.{field}" if f"{kind}.{field}" in MEANINGS else field
    if key not in MEANINGS:
        sys.exit(f"docs/wire_fields.py does not explain {kind}.{field}: say there what it means")
    USED.add(key)
    return MEANINGS[key]


def type_name(kind: Any) -> str:
    """A field's type in the words of msgpack."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in ELSEWHERE:
        return f"[{kind.__name__}]({ELSEWHERE[kind]})"
    if kind in NAMES:
        return NAMES[kind]
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(map(type_name, arguments))
    if origin is list:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return f"map of {type_name(arguments[0])} to {type_name(arguments[1])}"
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def attribute_docs(kind: type[Any]) -> dict[str, str]:
    """The strings that stand below a class's attributes, by attribute."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    docs = {}
    for before, node in pairwise(body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            targets = [before.target] if isinstance(before, ast.AnnAssign) else getattr(before, "targets", [])
            docs.update({target.id: " ".join(node.value.value.split()) for target in targets if isinstance(target, ast.Name)})
    return docs


def _with_contents(page: str) -> str:
    """A page with a list of its sections before the first of them; none of them has more than a code span in its title."""
    titles = re.findall(r"^## (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), re.M)
    names = (re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)
    links = (f"[{title.replace(' ', NO_BREAK)}](#{name})" for title, name in zip(titles, names, strict=True))
    lines = textwrap.wrap(" · ".join(links), WIDTH, break_long_words=False, break_on_hyphens=False)
    return page.replace("\n## ", "\n" + "\n".join(lines).replace(NO_BREAK, " ") + "\n\n## ", 1)


# --- states.md -------------------------------------------------------------------------------------------------------


def states() -> str:
    """The two tables of transitions."""
    return "\n".join(
        [
            NOTICE,
            "# What may follow what\n",
            "Each table has every state as a column and every event as a row. A cell names the next state; `·` is an entry",
            "that changes nothing (a late, repeated or reordered message); an empty cell is a pair that cannot be: it raises,",
            "is caught where the process takes messages in, logged and counted, and takes nothing down.\n",
            "## An attempt, in the broker\n",
            "From `broker/groups.py`. An attempt begins as `queued`.\n",
            *_machine(groups.State, groups.Event, groups.TRANSITIONS),
            "## A rollout's model call, in the proxy\n",
            "From `broker/proxy/calls.py`.\n",
            *_machine(calls.State, calls.Event, calls.TRANSITIONS),
        ]
    )


def _machine(states: type[Enum], events: type[Enum], table: Mapping[tuple[Any, Any], Enum]) -> list[str]:
    def cell(state: Enum, event: Enum) -> str:
        after = table.get((state, event))
        return "" if after is None else "·" if after is state else f"**{after.value}**"

    head = ["| event | " + " | ".join(state.value for state in states) + " |", "|---" * (len(states) + 1) + "|"]
    rows = [f"| {event.value} | " + " | ".join(cell(state, event) for state in states) + " |" for event in events]
    return [*head, *rows, "", *_words("state", states), *_words("event", events)]


def _words(what: str, members: type[Enum]) -> list[str]:
    docs = attribute_docs(members)
    rows = [f"| {member.value} | {docs[member.name]} |" for member in members if member.name in docs]
    return [f"| {what} | meaning |", "|---|---|", *rows, ""]


# --- the command -----------------------------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {"cli.md": cli, "protocol.md": protocol, "states.md": states}


def main() -> None:
    """Write the pages, or with --check say which differ from what would be written (exit code 1)."""
    check = sys.argv[1:] == ["--check"]
    drifted = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make().rstrip("\n") + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    idle = sorted(MEANINGS.keys() - USED)
    if idle:
        sys.exit(f"docs/wire_fields.py explains what no message has: {', '.join(idle)}")
    if check and drifted:
        sys.exit(f"docs/{', docs/'.join(drifted)}: not what the code says; run `make docs`")


if __name__ == "__main__":
    main()
