"""How are a prompt's token ids told as a difference to the step before? PURE: ids and image hashes in, a record out.

A rollout's prompts repeat each other: of 45,000 ids a step adds some 3,000, and most of those are the repeated
placeholder of its new image. So a step keeps only what the step before does not say (`PromptRecord`), and `rebuild`
gives the ids back, checked by their hash.

An image is a maximal run of one id, the placeholder. Which id that is differs between models and is not asked for: it
is the id whose runs number exactly the images of the messages, the remembered one where that still fits, else one
whose runs are all longer than a token (text repeats single ids too often), and of several the one that covers most.
Where none fits, or two cover as much, the images have no place: `images` is empty and `add` is not collapsed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from legato_rl.canonical import sha256_hex
from legato_rl.errors import RecordError
from legato_rl.records import PromptRecord

ID_BYTES = 4
"""Bytes of a token id in hashes and comparisons: uint32, little-endian."""

Image = tuple[int, int, str]
"""(index in the full prompt, length, image hash)."""


@dataclass(frozen=True)
class PromptHistory:
    """What a rollout's next prompt is compared with: the ids of prompt + response so far, as `pack` gives them.

    `images` are those of the prompt; `placeholder` is the last id that was found to stand for images.
    """

    ids: bytes = b""
    images: tuple[Image, ...] = ()
    placeholder: int | None = None

    def answered(self, response_ids: Sequence[int]) -> PromptHistory:
        """The history once `response_ids` were sampled after the prompt. RecordError where one is no uint32."""
        return replace(self, ids=self.ids + pack(response_ids))


NO_HISTORY = PromptHistory()


def pack(ids: Sequence[int]) -> bytes:
    """`ids` as little-endian uint32. RecordError where one is no uint32."""
    try:
        packed = array("I", ids)
    except (TypeError, OverflowError) as error:
        raise RecordError(f"a list of token ids holds what is no uint32 ({error}): the server's ids are damaged") from None
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def record_prompt(
    before: PromptHistory, prompt_ids: Sequence[int], image_hashes: Sequence[str]
) -> tuple[PromptRecord, PromptHistory]:
    """The record of a prompt that came after `before`, and the history up to this prompt (its response not yet in it).

    `prompt_ids` are the full prompt's, placeholders expanded; `image_hashes` the messages' images in order. `keep` is
    how many ids from the start are the same as before, with the same images at the same places, and never ends inside
    an image. RecordError where an id is no uint32.
    """
    packed = pack(prompt_ids)
    placeholder, images = _place_images(prompt_ids, image_hashes, before.placeholder)
    keep = _common_prefix(before.ids, packed)
    keep = min(keep, _first_difference(before.images, images))
    for index, length, _ in images:
        if index < keep < index + length:
            keep = index
    record = PromptRecord(keep=keep, add=_collapse(prompt_ids, keep, images), images=images, sha256=sha256_hex(packed))
    return record, PromptHistory(packed, tuple(images), placeholder)


def rebuild(previous_full_ids: Sequence[int], record: PromptRecord) -> list[int]:
    """The full prompt's ids. `previous_full_ids`: prompt + response of the step before, empty at the first step.

    RecordError where `record` does not belong there: it keeps more than there is, or the hash is another.
    """
    if record.keep > len(previous_full_ids):
        raise RecordError(f"prompt.keep is {record.keep}, but the step before has {len(previous_full_ids)} ids")
    full = list(previous_full_ids[: record.keep])
    taken = 0
    for index, length, _ in record.images:
        if index < record.keep:
            continue
        upto = taken + index - len(full)
        if not taken <= upto < len(record.add) or length < 1:
            raise RecordError(f"prompt.images names an image at {index} that prompt.add does not hold")
        full += record.add[taken:upto]
        full += [record.add[upto]] * length
        taken = upto + 1
    full += record.add[taken:]
    if sha256_hex(pack(full)) != record.sha256:
        raise RecordError(f"prompt.sha256 is {record.sha256}, but the rebuilt ids have another: the record is damaged")
    return full


def _place_images(ids: Sequence[int], hashes: Sequence[str], remembered: int | None) -> tuple[int | None, list[Image]]:
    """The placeholder id to remember, and where each image is; no images where they have no place."""
    if not hashes:
        return remembered, []
    placeholder, places = remembered, [] if remembered is None else _runs_of(remembered, ids)
    if len(places) != len(hashes):
        runs = _runs(ids)
        placeholder = _most_covering(runs, len(hashes))
        if placeholder is None:
            return remembered, []
        places = runs[placeholder]
    return placeholder, [(at, length, sha) for (at, length), sha in zip(places, hashes, strict=True)]


def _runs_of(token: int, ids: Sequence[int]) -> list[tuple[int, int]]:
    """(index, length) of each run of `token`. Comparing and grouping run in C, whatever the text between is."""
    found = []
    index = 0
    for is_token, group in groupby(map(token.__eq__, ids)):
        length = len(list(group))
        if is_token:
            found.append((index, length))
        index += length
    return found


def _runs(ids: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """(index, length) of each run, by id. Looks at every id of the text; for the first prompt of a server only."""
    runs: dict[int, list[tuple[int, int]]] = {}
    index = 0
    for token, group in groupby(ids):
        length = len(list(group))
        runs.setdefault(token, []).append((index, length))
        index += length
    return runs


def _most_covering(runs: dict[int, list[tuple[int, int]]], count: int) -> int | None:
    """The id with exactly `count` runs, each of 2 ids or more, that covers most ids; None where there is none such."""
    covered = sorted(
        (
            (sum(length for _, length in places), token)
            for token, places in runs.items()
            if len(places) == count and all(length > 1 for _, length in places)
        ),
        reverse=True,
    )
    if not covered or (len(covered) > 1 and covered[0][0] == covered[1][0]):
        return None
    return covered[0][1]


def _common_prefix(left: bytes, right: bytes) -> int:
    """How many ids from the start are equal in both. Bisection: comparing bytes is fast, looking at each id is not."""
    low, high = 0, min(len(left), len(right)) // ID_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        span = slice(low * ID_BYTES, middle * ID_BYTES)
        if left[span] == right[span]:
            low = middle
        else:
            high = middle - 1
    return low


def _first_difference(before: Sequence[Image], now: Sequence[Image]) -> int:
    """The index of the first image that only one side has, or has as another one; beyond every id where none differs.

    Images that only one side has *after* the common ids are no harm: their index is beyond them.
    """
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return min((images[same][0] for images in (before, now) if same < len(images)), default=sys.maxsize)


def _collapse(ids: Sequence[int], keep: int, images: Sequence[Image]) -> list[int]:
    """The ids from `keep` on, each image's run as one id."""
    add: list[int] = []
    at = keep
    for index, length, _ in images:
        if index >= keep:
            add += ids[at : index + 1]
            at = index + length
    add += ids[at:]
    return add
