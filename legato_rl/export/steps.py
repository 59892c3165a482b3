"""What does a trainer read? One JSON line per step of every rollout that may be trained on. DISK.

Two passes over the rows: the first keeps a few facts of each, which decide the groups; the second seeks to the
rows that are exported, group by group, and holds one of them at a time. Fields: docs/export.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legato_rl.canonical import image_hashes
from legato_rl.errors import ConfigError, RecordError
from legato_rl.export.groups import Group, RowFacts, fold_groups
from legato_rl.export.output import open_output
from legato_rl.export.reader import RowFile, load_group_ids
from legato_rl.prompt_ids import rebuild
from legato_rl.records import Rollout, Step
from legato_rl.request import StoredMessages, message_hashes
from legato_rl.rundir import RunDir

NOT_SAMPLING = frozenset(
    {"model", "stream", "stream_options", "n", "logprobs", "top_logprobs", "return_token_ids", "chat_template_kwargs"}
)
"""Keys of a request's params that ask for output or shape the prompt; every other key is of the sampling."""


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote, and what it left out."""

    steps: int
    """Lines written."""
    rollouts: int
    groups_closed: int
    """Closed groups written; likewise `groups_short`."""
    groups_short: int
    groups_flat: int
    """Written groups whose rewards do not differ: all their advantages are 0."""
    groups_open: int
    """Left out: their rewards are not final."""
    groups_small: int
    """Closed or short, and left out: fewer usable rollouts than `min_group`."""
    rollouts_mixed: int
    """Rollouts of groups written that were left out: they have more than `max_versions` policy versions."""
    steps_without_prompt_ids: int
    torn_bytes: int
    """Bytes at the end of rollouts.jsonl that are no whole row; left out."""

    def as_dict(self) -> dict[str, int]:
        """The report as a JSON object."""
        return asdict(self)


def export_steps(
    run_dir: str | Path,
    out: str | Path,
    *,
    overwrite: bool = False,
    inline_images: bool = False,
    min_group: int = 1,
    max_versions: int = 1,
) -> ExportReport:
    """Write one JSON line per step of every `ok` or `truncated` rollout of the closed and short groups of a run.

    `out` is a new file, which is there whole at the end and not at all on an error, or `-` for standard output.
    `overwrite`: a file that is there is replaced (and left as it was on an error), where it would be refused.
    `inline_images` puts images into the messages as data URLs. Groups with fewer than `min_group` usable rollouts are
    left out, and so are rollouts of more than `max_versions` policy versions; what is written keeps the advantage that it
    has among all of its group. ConfigError: the folder is no run, or `out` cannot be written. RecordError: the folder is
    damaged.
    """
    for name, value in (("min_group", min_group), ("max_versions", max_versions)):
        if value < 1:
            raise ConfigError(f"{name} is {value}: it must be at least 1")
    run = RunDir(Path(run_dir))
    about = run.load_run()
    group_ids = load_group_ids(run)
    steps = rollouts = mixed = without_ids = 0
    with open_output(run, out, overwrite) as write, RowFile(run) as file:
        groups = fold_groups((facts for facts, _ in file.rows()), about.settings, group_ids, about.again)
        ended = [group for group in groups if group.state != "open"]
        written = [group for group in ended if len(group.usable) >= min_group]
        by_id = {group.group_id: group for group in written}
        for row in (row for group in written for row in group.usable):
            if row.versions > max_versions:
                mixed += 1
                continue
            rollouts += 1
            for line in step_lines(run, file.row(row), row, by_id[row.group_id], inline_images):
                write(json.dumps(line, allow_nan=False).encode("ascii") + b"\n")
                steps += 1
                without_ids += line["prompt_token_ids"] is None
    return ExportReport(
        steps=steps,
        rollouts=rollouts,
        groups_closed=sum(group.state == "closed" for group in written),
        groups_short=sum(group.state == "short" for group in written),
        groups_flat=sum(group.flat for group in written),
        groups_open=len(groups) - len(ended),
        groups_small=len(ended) - len(written),
        rollouts_mixed=mixed,
        steps_without_prompt_ids=without_ids,
        torn_bytes=file.torn_bytes,
    )


def step_lines(run: RunDir, rollout: Rollout, row: RowFacts, group: Group, inline_images: bool) -> Iterator[dict[str, Any]]:
    """The lines of one rollout, by step. RecordError where a step cannot be trained on as it is stored."""
    stored = StoredMessages(run)
    before: list[int] = []
    for index, step in enumerate(rollout.steps):
        where = f"{run.rollouts}, line {row.line}, step {index}"
        ids = _prompt_ids(step, before, where)
        before = [*ids, *(step.response.token_ids or [])] if ids is not None else []
        messages = stored.load(message_hashes(step.request.model_dump(include={"messages"})))
        images = _images(run, step, messages, where)
        if inline_images:
            stored.inline(messages)
        response = step.response
        if response.token_ids is not None and len(response.token_ids) != len(response.logprobs):
            count = f"{len(response.token_ids)} token ids and {len(response.logprobs)} logprobs"
            raise RecordError(f"{where}: the response has {count}: the row is damaged")
        yield {
            "rollout_id": rollout.rollout_id,
            "group_id": rollout.group_id,
            "task_id": rollout.task_id,
            "attempt": rollout.attempt,
            "status": rollout.status.value,
            "step": index,
            "n_steps": rollout.n_steps,
            "messages": messages,
            "prompt_token_ids": ids,
            "images": images,
            "response_text": response.content,
            "response_reasoning": response.reasoning,
            "response_token_ids": response.token_ids,
            "response_logprobs": response.logprobs,
            "response_tokens": response.tokens,
            "finish_reason": response.finish_reason,
            "parse_error": step.parse_error,
            "sampling": {key: value for key, value in step.request.params.items() if key not in NOT_SAMPLING},
            "reward": rollout.reward,
            "advantage": group.advantages[rollout.attempt],
            "group_asked": group.asked,
            "group_usable": len(group.usable),
            "policy_version": step.model.version,
            "meta": rollout.meta,
        }


def _prompt_ids(step: Step, before: list[int], where: str) -> list[int] | None:
    """The step's full prompt ids, image placeholders expanded; None where the server gave none.

    `before` is prompt + response of the step before; empty at the first step, and after one without prompt ids.
    """
    if step.request.prompt is None:
        return None
    try:
        return rebuild(before, step.request.prompt)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None


def _images(run: RunDir, step: Step, messages: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """The step's images in prompt order, each with its place in the prompt ids where those are known.

    RecordError where the ids speak of other images than the messages: such a step would train on pixels not seen.
    """
    named = [sha256 for message in messages for sha256 in image_hashes(message)]
    places: list[tuple[int | None, int | None, str]] = [(None, None, sha256) for sha256 in named]
    # A prompt whose placeholders could not be told from its text has ids, and images without a place.
    if step.request.prompt and step.request.prompt.images:
        places = [*step.request.prompt.images]
        if [sha256 for _, _, sha256 in places] != named:
            raise RecordError(f"{where}: prompt.images are not the {len(named)} images of its messages")
    return [
        {
            "sha256": sha256,
            "index": index,
            "length": length,
            "path": run.image(sha256).relative_to(run.root).as_posix(),
        }
        for index, length, sha256 in places
    ]
