"""What was found wrong? The codes, a fault, and the report that they are put into. PURE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

CODES: dict[str, str] = {
    "run-file": "`run.json` cannot be read, so nothing can be said about the rows",
    "tasks-file": "`tasks.jsonl` is not the list of the run's groups, so nothing can be said about the rows",
    "end-file": "`end.json` does not say how the run ended",
    "desktop-events": "a line of `desktops.jsonl` is no desktop event, or not the next one",
    "row-form": "the line is no row of the format, so whoever reads it stops there or misreads it",
    "row-contradiction": "the row contradicts itself, or the run, group or task that it says it is of",
    "duplicate-key": "a try has two rows: the first stands, and whoever counts lines counts it twice",
    "row-status": "the status is not the one that the rows before it give, so a row is trained on that must not be, or is not",
    "row-versions": "the policy versions are not those of the steps, so the row is on-policy or off-policy by mistake",
    "row-timing": "the durations cannot be: one is negative, parts are more than their whole, or a time is none",
    "attempt-order": "the tries of an attempt do not follow each other, or the attempt goes on after its end",
    "end-unfinished": "the run is said to have finished, and an attempt has no final row: rows are lost",
    "step-body": "the request rebuilt from the record is not the body that was sent",
    "step-prompt": "the prompt ids rebuilt from the record are not those that the server gave",
    "step-ids": "ids and logprobs do not belong together: no trainer can use the step",
    "blob-missing": "a row needs this message or image, and it is not there",
    "blob-hash": "the bytes of this file are not those that its name is the hash of",
    "blob-message": "this file is no chat message in canonical JSON with its images by name",
    "blob-image": "this file is no PNG that can be decoded whole",
    "blob-orphan": "no row names this file, and nothing in the run can have left it: a row is lost, or it was put there",
    "blob-foreign": "this does not belong into the folder of messages or images",
    "summary-missing": "the run ended, and its `summary.json` is not there",
    "summary-differs": "`summary.json` is not what the rows give",
    "export-differs": "a line of an export in the folder is not what the rows give (advantages among it): export again",
    "key-found": "the model server's key is in this file: take the folder out of reach, and change the key",
    "authorization-found": "this file holds what looks like the value of an Authorization header",
}
"""Every code, with what it means for whoever trains on the run."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: `where` is a file of the folder, with `:line` and ` step n` (from 0) where that is known."""

    code: str
    where: str
    message: str

    @property
    def meaning(self) -> str:
        """What a fault of this code means."""
        return CODES[self.code]


@dataclass
class Report:
    """What a look at a folder found. Notes are no faults: what a crash leaves behind, and what was not looked at."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: int = 0
    steps: int = 0
    messages: int = 0
    images: int = 0

    def fault(self, code: str, where: str, message: str) -> None:
        """Something is wrong."""
        assert code in CODES, code
        self.faults.append(Fault(code, where, message))

    def note(self, text: str) -> None:
        """Something is worth knowing, and not wrong."""
        self.notes.append(text)


def counted(count: int, what: str) -> str:
    """`count` of something in words: `1 row`, `2,000 rows`."""
    return f"{count:,} {what}" + "s" * (count != 1)


Tell = Callable[[str, int, int], None]
"""Hears how far it is: what is looked at, how much of it was, and how much there is (bytes of rows, files of blobs)."""


def told_nobody(what: str, done: int, of: int) -> None:
    """A Tell that nobody hears."""
