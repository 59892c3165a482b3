"""docs/rollouts.md and docs/export.md name every field that is written, and none that is not."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import get_args

import pytest

from legato_rl.config import DesktopConfig, PolicyConfig, Settings
from legato_rl.records import (
    ActionRecord,
    Draft,
    FeedRow,
    ModelUse,
    Outcome,
    PolicyStamp,
    PromptRecord,
    Record,
    ResetWay,
    Rollout,
    RolloutError,
    RolloutKey,
    Status,
    Step,
    StepRequest,
    StepResponse,
    Timing,
)
from legato_rl.summary import summarize

DOCS = Path(__file__).resolve().parents[2] / "docs"

SECTIONS: dict[str, type[Record]] = {
    "A row": Rollout,
    "policy": PolicyStamp,
    "error": RolloutError,
    "timing": Timing,
    "Step": Step,
    "request": StepRequest,
    "prompt": PromptRecord,
    "response": StepResponse,
    "model": ModelUse,
    "action": ActionRecord,
}


NOT_IN_ROWS: set[type[Record]] = {Draft, FeedRow, RolloutKey}
"""Records of the wire; a Draft's fields are those of the Rollout that it becomes."""


def documented(page: str, heading: str) -> list[str]:
    """The names in the first columns of the tables under `heading`, each with a meaning beside it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"{page} has no section {heading}"
    return re.findall(r"^\| `(\w+)` \| \S.* \|$", section[1], re.MULTILINE)


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_field_of_a_record(heading: str) -> None:
    """A record's table has exactly its fields."""
    fields = {field.alias or name for name, field in SECTIONS[heading].model_fields.items()}
    names = documented("rollouts.md", heading)
    assert set(names) == fields
    assert len(names) == len(fields)


def test_every_record_has_a_section() -> None:
    """A new record is either in a row, and then documented here, or named as one that is not."""
    records = {model for model in Record.__subclasses__() if model.__module__ == Record.__module__}
    assert records == {*SECTIONS.values(), *NOT_IN_ROWS} - {Rollout}


@pytest.mark.parametrize("words", [Outcome, Status])
def test_every_outcome_and_status(words: type[Enum]) -> None:
    """Every word of an outcome and a status is explained."""
    assert {word.value for word in words} <= set(documented("rollouts.md", "Outcomes and statuses"))


def test_every_way_of_a_reset() -> None:
    """In the order of the summary."""
    assert tuple(documented("rollouts.md", "reset")) == get_args(ResetWay)


def test_every_number_of_the_summary() -> None:
    """The summary's tables have exactly its fields."""
    settings = Settings(policy=PolicyConfig("fake", "m"), desktop=DesktopConfig(backend="fake"))
    summary = summarize([], settings, [])
    of_the_run = {"run_id", "model", "version", "end"}
    assert set(documented("rollouts.md", "summary.json")) == summary.keys() | of_the_run
    assert set(documented("rollouts.md", "model_calls")) == summary["model_calls"].keys()
