"""Are prompts gathered from parts that come once, in a bounded store?"""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato_rl.broker.proxy.fragments import Fragments, check_parts
from legato_rl.canonical import canonical_json, image_name, sha256_hex
from legato_rl.errors import WireError
from legato_rl.wire import BlobName


def image(n: int, size: int = 100) -> bytes:
    return bytes([n]) * size


def message(text: str, *images: bytes) -> bytes:
    """A user message in canonical JSON, images by name."""
    parts = [{"type": "image_url", "image_url": {"url": image_name(sha256_hex(png))}} for png in images]
    return canonical_json({"role": "user", "content": [*parts, {"type": "text", "text": text}]})


def named(*blobs: bytes) -> list[BlobName]:
    """The names of blobs; what begins as JSON is a message."""
    return [
        BlobName(sha256=sha256_hex(blob), size=len(blob), type="message" if blob[:1] == b"{" else "image") for blob in blobs
    ]


def hold(store: Fragments, rollout: str, *messages: bytes) -> None:
    store.hold(rollout, [sha256_hex(text) for text in messages])


def feed(store: Fragments, rollout: str, *blobs: bytes) -> None:
    store.feed(rollout, check_parts(named(*blobs), blobs))


def test_a_message_with_its_images_becomes_a_fragment_with_data_urls() -> None:
    """What leaves is the message with each image's name replaced by its bytes."""
    store, png = Fragments(10**6), image(1)
    text = message("look", png)
    hold(store, "r", text)
    feed(store, "r", text, png)
    (fragment,) = store.prompt("r")
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    assert json.loads(fragment.ready)["content"][0]["image_url"]["url"] == url
    assert (fragment.message, fragment.images) == (text, (sha256_hex(png),))


def test_what_is_missing_is_the_message_then_its_images() -> None:
    """A message that never came is asked for; once here, only the images that it lacks are."""
    store, one, two = Fragments(10**6), image(1), image(2)
    text, other = message("a", one, two), message("b")
    hold(store, "r", text, other)
    assert store.missing("r") == [sha256_hex(text), sha256_hex(other)]
    feed(store, "r", text, one)
    assert store.missing("r") == [sha256_hex(two), sha256_hex(other)]
    feed(store, "r", other, two)
    assert store.missing("r") == []
    assert len(store.prompt("r")) == 2


def test_images_that_come_before_their_message_are_kept_for_it() -> None:
    """The order of blobs and asks does not matter."""
    store, png = Fragments(10**6), image(1)
    text = message("a", png)
    hold(store, "r", text)
    feed(store, "r", png)
    assert store.missing("r") == [sha256_hex(text)]
    feed(store, "r", text)
    assert store.missing("r") == []


def test_an_image_seen_before_is_asked_for_again_where_a_new_message_names_it() -> None:
    """Images are not kept beside their fragments: a screen that did not change is sent again for the new message."""
    store, png = Fragments(10**6), image(1)
    first, second = message("a", png), message("b", png)
    hold(store, "r", first)
    feed(store, "r", first, png)
    store.prompt("r")
    hold(store, "r", first, second)
    feed(store, "r", second)
    assert store.missing("r") == [sha256_hex(png)]


def test_parts_go_once_their_prompt_is_whole() -> None:
    """A fragment that the budget took is asked for with all its parts: none was kept beside it."""
    store, png = Fragments(0), image(1)
    text = message("a", png)
    hold(store, "r", text)
    feed(store, "r", text, png)
    store.prompt("r")
    store.unpin("r")
    assert store.missing("r") == [sha256_hex(text)]
    feed(store, "r", text)
    assert store.missing("r") == [sha256_hex(png)]


def test_rollouts_share_messages_and_the_last_holder_takes_them_along() -> None:
    """A system prompt is there once, until no live rollout has it in its prompt."""
    store, text = Fragments(10**6), message("system")
    hold(store, "one", text)
    feed(store, "one", text)
    hold(store, "two", text)
    assert store.missing("two") == []
    store.forget("one")
    assert store.missing("two") == []
    store.forget("two")
    assert store.used == 0


def test_a_message_that_the_next_prompt_folds_away_goes() -> None:
    """What no present prompt holds is dropped at once."""
    store, old, new = Fragments(10**6), message("old"), message("new")
    hold(store, "r", old)
    feed(store, "r", old)
    hold(store, "r", new)
    feed(store, "r", new)
    assert store.used == len(new)


def test_over_the_budget_the_longest_unused_goes_but_nothing_of_a_call_in_work() -> None:
    """Pinned messages stay whatever the budget says; the others go oldest first and are asked for again."""
    texts = [message(f"{n}" * 50) for n in range(3)]
    store = Fragments(len(texts[0]) * 2)
    for n, text in enumerate(texts):
        hold(store, f"r{n}", text)
        feed(store, f"r{n}", text)
        store.prompt(f"r{n}")
    assert store.used == 3 * len(texts[0])
    store.prompt("r0")
    store.unpin("r1")
    assert store.missing("r1") == [sha256_hex(texts[1])]
    assert store.missing("r0") == store.missing("r2") == []


@pytest.mark.parametrize(
    ("names", "blobs", "says"),
    [
        (named(b"abc"), [b"abd"], "another hash"),
        (named(b"abc"), [b"abcd"], "has 4 bytes"),
        (named(b"abc"), [], "1 blobs are named"),
        (named(b'{"b":1,"a":2}'), [b'{"b":1,"a":2}'], "canonical"),
        (named(b"{nonsense"), [b"{nonsense"], "canonical"),
        (named(b'{"a":NaN}'), [b'{"a":NaN}'], "canonical"),
        ([BlobName(sha256=sha256_hex(b"[1]"), size=3, type="message")], [b"[1]"], "canonical"),
    ],
)
def test_a_bad_blob_is_refused(names: list[BlobName], blobs: list[bytes], says: str) -> None:
    """A blob must be what its name says, and a message must be what its hash will be taken over."""
    with pytest.raises(WireError, match=says):
        check_parts(names, blobs)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.integers(0, 2000))
def test_random_prompts_are_always_gathered_and_leave_nothing_behind(data: st.DataObject, budget: int) -> None:
    """Whatever the budget, folding and sharing: sending what is missing makes a prompt whole, and forgetting empties."""
    store = Fragments(budget)
    pngs = [image(n) for n in range(4)]
    texts = [message(str(n), *pngs[: n % 3]) for n in range(6)]
    parts = {sha256_hex(blob): blob for blob in pngs + texts}
    rollouts = ["a", "b", "c"]
    for _ in range(data.draw(st.integers(1, 12))):
        rollout = data.draw(st.sampled_from(rollouts))
        match data.draw(st.sampled_from(["prompt", "prompt", "unpin", "forget"])):
            case "unpin":
                store.unpin(rollout)
            case "forget":
                store.forget(rollout)
            case _:
                prompt = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=5))
                hold(store, rollout, *prompt)
                rounds = 0
                while missing := store.missing(rollout):
                    feed(store, rollout, *(parts[sha256] for sha256 in missing))
                    rounds += 1
                    assert rounds <= 2, "messages in one round, images in the next"
                assert [fragment.message for fragment in store.prompt(rollout)] == prompt
    for rollout in rollouts:
        store.unpin(rollout)
    assert store.used <= budget
    for rollout in rollouts:
        store.forget(rollout)
    assert store.used == 0
