"""Is the model server's key in the folder? Looked for in every file, in pieces; never told itself. DISK."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from legato_rl.rundir import RunDir
from legato_rl.verify.report import Report

SHORTEST = 8
"""Bytes of a key that is looked for: a shorter one would be found by chance among gigabytes of images."""

PIECE = 2**20
"""Bytes of a file in memory at a time."""

OVERLAP = 4096
"""Bytes that two pieces share, so that nothing is missed between them; no HTTP header is longer in practice."""

_VALUE = rb"(?=[\w.~+/=-]{0,256}\d)[\w.~+/=-]{8,}"
AUTHORIZATION = re.compile(
    rb"(?i)(?:authorization[\"']?\s{0,4}[:=]\s{0,4}b?[\"']?(?:basic\s+|bearer\s+)?|\bbearer\s+)" + _VALUE
)
"""A header's value: at least 8 signs, one of them a digit, so that prose about keys is none."""


class Key:
    """The key as it may stand in a file: as it is, and as JSON writes it. Without one nothing is looked for."""

    def __init__(self, key: str | None, report: Report) -> None:
        data = (key or "").encode("utf-8", "surrogateescape")
        self._forms = {data, json.dumps(key or "")[1:-1].encode()} if len(data) >= SHORTEST else set()
        if data and not self._forms:
            report.note(f"the key was not looked for: it is shorter than {SHORTEST} bytes and would be found by chance")

    def __bool__(self) -> bool:
        return bool(self._forms)

    def is_in(self, data: bytes) -> bool:
        """Whether the key stands in `data`."""
        return any(form in data for form in self._forms)

    def hidden(self, text: str) -> str:
        """`text` without the key: what a damaged row or a file's name says is told in messages."""
        for form in self._forms:
            text = text.replace(form.decode("utf-8", "surrogateescape"), "…")
        return text


def check_key(run: RunDir, key: Key, report: Report) -> None:
    """Look for the key in every file but the blobs, which are looked at as they are read; and for headers in the logs."""
    blobs = {run.images, run.messages}
    for path in sorted(path for path in run.root.rglob("*") if path.is_file() and path.parent not in blobs):
        where = path.relative_to(run.root).as_posix()
        if key and (key.is_in(where.encode()) or _found(path, key.is_in)):
            report.fault("key-found", where, "it holds the key in LEGATO_POLICY_KEY")
        elif _is_told(run, path) and _found(path, lambda data: AUTHORIZATION.search(data) is not None):
            report.fault("authorization-found", where, "it holds the value of an Authorization header")


def _is_told(run: RunDir, path: Path) -> bool:
    """Whether only the run's own processes write here: rows and messages hold what a policy may have made up."""
    return run.logs in path.parents or path in (run.run_file, run.end, run.supervisord_conf, run.desktop_events)


def _found(path: Path, met: Callable[[bytes], bool]) -> bool:
    """Whether any piece of the file meets the condition. A log that was rotated away meanwhile has none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        before = b""
        while piece := file.read(PIECE):
            if met(before + piece):
                return True
            before = (before + piece)[-OVERLAP:]
    return False
