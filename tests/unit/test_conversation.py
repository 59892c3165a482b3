"""How do an agent's chat messages become stored ones? Each is hashed once, and images are named."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.canonical import canonical_json, image_hashes, sha256_hex
from legato_rl.workers.conversation import DATA_URL, Conversation


def url(png: bytes) -> str:
    """A new str object each time."""
    return DATA_URL + base64.b64encode(png).decode()


def shown(*urls: str, text: str = "look") -> dict[str, Any]:
    """A user's message with images."""
    images = [{"type": "image_url", "image_url": {"url": url, "detail": "high"}} for url in urls]
    return {"role": "user", "content": [*images, {"type": "text", "text": text}]}


def test_images_come_before_the_message_that_names_them() -> None:
    """The blobs are the PNG and the canonical JSON of the message, each under its own hash."""
    conversation = Conversation()
    hashes, new = conversation.add([{"role": "system", "content": "be brief"}, shown(url(b"png-1"))])
    assert [(blob.type, blob.sha256) for blob in new] == [
        ("message", hashes[0]),
        ("image", sha256_hex(b"png-1")),
        ("message", hashes[1]),
    ]
    assert all(sha256_hex(blob.data) == blob.sha256 for blob in new)
    assert new[0].data == canonical_json({"role": "system", "content": "be brief"})
    stored = json.loads(new[2].data)
    assert image_hashes(stored) == [sha256_hex(b"png-1")]
    assert stored["content"][0]["image_url"]["detail"] == "high", "what else the part says is kept"


def test_what_was_there_before_is_not_new() -> None:
    """A grown conversation yields the grown part only; the agent's own messages are left as they were."""
    conversation, first = Conversation(), shown(url(b"1"))
    before = json.dumps(first)
    hashes, _ = conversation.add([first])
    again, new = conversation.add([first, {"role": "assistant", "content": "click"}, shown(url(b"2"))])
    assert again[0] == hashes[0]
    assert [blob.type for blob in new] == ["message", "image", "message"]
    assert conversation.add([first])[1] == []
    assert json.dumps(first) == before
    assert set(conversation.blobs) == {*again, sha256_hex(b"1"), sha256_hex(b"2")}


def test_an_image_is_decoded_and_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its URL comes as the same object or as an equal one: twenty screenshots of history cost nothing."""
    decoded: list[str] = []
    real = base64.b64decode

    def counted(text: str, **kwargs: Any) -> bytes:
        decoded.append(text)
        return real(text, **kwargs)

    monkeypatch.setattr(base64, "b64decode", counted)
    conversation, same = Conversation(), url(b"1")
    for _ in range(3):
        conversation.add([shown(same, same), shown(url(b"1"))])
    assert len(decoded) == 1


def test_an_image_that_no_message_holds() -> None:
    """The last screenshot: new unless some message showed it."""
    conversation = Conversation()
    sha256, new = conversation.add_image(b"png")
    assert (sha256, [blob.data for blob in new]) == (sha256_hex(b"png"), [b"png"])
    assert conversation.add_image(b"png") == (sha256, [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("http://host/x.png", "it must be a data:image/png;base64, URL"),
        ("data:image/jpeg;base64,AAAA", "it must be a data:image/png;base64, URL"),
        ("legato-image://" + "0" * 64, "it must be a data:image/png;base64, URL"),
        (DATA_URL + "A", "is no base64"),
        (DATA_URL + "AA AA", "is no base64"),
    ],
)
def test_another_url_is_refused(wrong: str, said: str) -> None:
    """What the agent shows must be bytes that can be kept; nothing of the message is."""
    conversation = Conversation()
    with pytest.raises(ValueError, match=said):
        conversation.add([shown(wrong)])
    assert conversation.blobs == {}


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers() | st.none(), max_size=4))
def test_a_hash_names_the_value(message: dict[str, Any]) -> None:
    """Equal messages have one hash, whatever the order of their keys."""
    turned = dict(reversed(list(message.items())))
    hashes, new = Conversation().add([message, turned])
    assert hashes[0] == hashes[1] == sha256_hex(canonical_json(message))
    assert len(new) == 1
