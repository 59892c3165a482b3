"""May a trainer have what it asks for? The checks of asks with conditions; ValueError with the sentence that the asker gets."""

from __future__ import annotations

from collections.abc import Sequence

from legato_rl.config import FAKE_URL, PolicyConfig
from legato_rl.service import origin
from legato_rl.wire import PolicyAsk


def desktops_after(change: int, work: int, most: int) -> int:
    """How many desktops work after `change`, where `work` do and `most` may."""
    if work + change < 0:
        raise ValueError(f"{-change} fewer cannot be had: only {work} desktops work")
    if work + change > most:
        raise ValueError(
            f"{change} more cannot be had: {work} desktops work, and the service has processes for {most} at most "
            "(--most-desktops)"
        )
    return work + change


def url_after(ask: PolicyAsk, stands_still: bool, origins: Sequence[str]) -> str:
    """The model server's URL that a change of policy asks for, "" where it stays; `origins` are allowed."""
    if not (ask.model or ask.version or ask.url):
        raise ValueError("model, version and url are all empty: name what is to change")
    if ask.url and ask.when != "paused":
        raise ValueError("url can only change while the service is paused: leave `when` at `paused`")
    # As the proxy reads it, who must never be told what it cannot take.
    url = PolicyConfig(ask.url, "any").url if ask.url else ""
    if url and (url == FAKE_URL or origin(url) not in origins):
        raise ValueError(f"url is {url!r}: this service may only call {', '.join(origins)}")
    if ask.when == "paused" and not stands_still:
        raise ValueError("model calls do not stand still: pause first and wait for it, or set `when` to `new`")
    return url
