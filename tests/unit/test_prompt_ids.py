"""Do prompt records give back exactly the ids that the server reported?"""

from __future__ import annotations

from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato_rl.canonical import sha256_hex
from legato_rl.errors import RecordError
from legato_rl.prompt_ids import NO_HISTORY, PromptHistory, pack, rebuild, record_prompt
from legato_rl.records import PromptRecord

PAD = 151655
START, END = 151652, 151653
A, B, C = "a" * 64, "b" * 64, "c" * 64


def shot(length: int) -> list[int]:
    """The ids of one image of `length` tokens as Qwen's template has them."""
    return [START, *[PAD] * length, END]


@st.composite
def rollouts(draw: st.DrawFn) -> list[tuple[list[int], list[str], list[int]]]:
    """A random rollout: (prompt ids, image hashes, response ids) by step, with folds, image swaps and drifting ids."""
    text = st.lists(st.integers(0, 5), max_size=6)
    turns: list[tuple[list[int], str | None, int]] = []
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        match draw(st.sampled_from(["grow", "grow", "fold", "swap", "drift"])):
            case "fold" if turns:
                turns[0] = (turns[0][0], None, 0)
            case "swap" if turns:
                turns[0] = (turns[0][0], draw(st.sampled_from([A, B, C])), draw(st.integers(1, 4)))
            case "drift" if turns:
                turns[-1] = (draw(text), *turns[-1][1:])
            case _:
                turns.append((draw(text), draw(st.sampled_from([A, B, C, None])), draw(st.integers(1, 4))))
        ids: list[int] = []
        for words, image, length in turns:
            ids += [*words, *(shot(length) if image else [])]
        response = draw(st.lists(st.sampled_from([0, 1, 2, PAD]), max_size=4))
        steps.append((ids, [image for _, image, _ in turns if image], response))
    return steps


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rollouts())
def test_rebuild_is_the_inverse(steps: list[tuple[list[int], list[str], list[int]]]) -> None:
    """Whatever the prompts were, the records give back their ids, and every image named lies on a run of one id."""
    history, full = NO_HISTORY, list[int]()
    for ids, hashes, response in steps:
        record, history = record_prompt(history, ids, hashes)
        assert rebuild(full, record) == ids
        assert [image[2] for image in record.images] in ([], hashes)
        for index, length, _ in record.images:
            assert len(set(ids[index : index + length])) == 1
            assert not index < record.keep < index + length
        history = history.answered(response)
        full = ids + response


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_keep_is_the_longest_common_prefix(before: list[int], ids: list[int]) -> None:
    """Without images, `keep` is as long as the two lists agree, and no longer."""
    record, _ = record_prompt(PromptHistory(pack(before)), ids, [])
    assert before[: record.keep] == ids[: record.keep]
    longer = record.keep + 1
    assert before[:longer] != ids[:longer] or record.keep == len(before) == len(ids)


def test_a_growing_rollout_keeps_everything_and_adds_its_new_turn() -> None:
    """The next turn's record holds the new text and one placeholder for the new image."""
    first = [1, 2, *shot(70), 3]
    record, history = record_prompt(NO_HISTORY, first, [A])
    assert (record.keep, record.add, record.images) == (0, [1, 2, START, PAD, END, 3], [(3, 70, A)])
    second = [*first, 8, 9, *shot(50), 4]
    record, history = record_prompt(history.answered([8, 9]), second, [A, B])
    assert (record.keep, record.add) == (len(first) + 2, [START, PAD, END, 4])
    assert record.images == [(3, 70, A), (len(first) + 3, 50, B)]
    assert history.placeholder == PAD


def test_another_image_at_the_same_place_ends_what_is_kept() -> None:
    """Equal ids are not an equal prompt: keep stops where a swapped image starts."""
    ids = [1, *shot(5), 2, *shot(5), 3]
    _, history = record_prompt(NO_HISTORY, ids, [A, B])
    record, _ = record_prompt(history, ids, [A, C])
    assert record.keep == ids.index(PAD, 8)
    assert record.add == [PAD, END, 3]


def test_a_prefix_that_ends_inside_an_image_is_cut_back_to_its_start() -> None:
    """An image that became longer shares its first ids with the old one, but is none of it."""
    _, history = record_prompt(NO_HISTORY, [1, *shot(5), 3], [A])
    record, _ = record_prompt(history, [1, *shot(9), 3], [B])
    assert record.keep == 2


def test_a_dropped_image_ends_what_is_kept() -> None:
    """Where the images of this prompt cannot be placed, nothing from the first placed image on is kept."""
    _, history = record_prompt(NO_HISTORY, [1, *shot(5), 3], [A])
    record, _ = record_prompt(history, [1, *shot(5), 3, *shot(5)], [A])
    assert (record.keep, record.images) == (2, [])


def test_a_one_token_image_needs_a_remembered_placeholder() -> None:
    """Single ids are everywhere in text, so only an id seen as a placeholder before may stand for a one-token image."""
    ids = [1, PAD, 2]
    unknown, _ = record_prompt(NO_HISTORY, ids, [A])
    assert (unknown.images, unknown.add) == ([], ids)
    known, _ = record_prompt(PromptHistory(placeholder=PAD), ids, [A])
    assert known.images == [(1, 1, A)]


def test_of_several_candidates_the_one_that_covers_most_stands_for_the_images() -> None:
    """A doubled letter of a byte tokeniser is no image; two ids that cover as much are no answer."""
    record, _ = record_prompt(NO_HISTORY, [7, 7, *shot(70)], [A])
    assert record.images == [(3, 70, A)]
    record, _ = record_prompt(NO_HISTORY, [7, 7, 8, 8], [A])
    assert record.images == []


def test_the_hash_is_over_all_expanded_ids_as_little_endian_uint32() -> None:
    """Anyone can check a prompt without this package."""
    ids = [1, *shot(3), 2**32 - 1]
    record, _ = record_prompt(NO_HISTORY, ids, [A])
    assert record.sha256 == sha256_hex(b"".join(token.to_bytes(4, "little") for token in ids))


@pytest.mark.parametrize(
    "change",
    [
        {"keep": 1},
        {"add": [1, 2, 3]},
        {"images": [(9, 2, A)]},
        {"images": [(1, 0, A)]},
        {"images": [(2, 3, A), (1, 2, B)]},
        {"sha256": "0" * 64},
    ],
)
def test_a_record_that_does_not_belong_there_is_refused(change: dict[str, object]) -> None:
    """A damaged record raises, it never gives other ids."""
    record, _ = record_prompt(NO_HISTORY, [1, *shot(3), 2], [A])
    with pytest.raises(RecordError):
        rebuild([], PromptRecord.model_validate({**record.model_dump(), **change}))


@pytest.mark.parametrize("token", [-1, 2**32])
def test_an_id_that_is_no_uint32_is_refused(token: int) -> None:
    """Damaged ids from a server are named, not wrapped around."""
    with pytest.raises(RecordError, match="uint32"):
        record_prompt(NO_HISTORY, [token], [])


def test_arrays_are_accepted_as_ids() -> None:
    """A reader may hold ids in arrays; the result is the same."""
    ids = array("I", [1, 2, *shot(4)])
    record, _ = record_prompt(NO_HISTORY, ids, [A])
    assert record.add == [1, 2, START, PAD, END]
    assert rebuild(array("I"), record) == list(ids)
