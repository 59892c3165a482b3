"""Which messages are ready to be sent? The JSON fragment of each message of the live rollouts, in a byte budget. PURE.

A message comes once, as canonical JSON with its images by name, and its images once, as PNG; together they make the
fragment that every later prompt of the rollout joins in. Images are kept no longer than their prompt takes to gather.
Rollouts share fragments by hash. A fragment goes when no rollout's present prompt has it; over the budget the one that
was used longest ago goes first, but none of a call in work, and is asked for again when a prompt needs it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from legato_rl.canonical import canonical_json, image_hashes, sha256_hex
from legato_rl.errors import WireError
from legato_rl.policy.body import message_fragment
from legato_rl.wire import BlobName


@dataclass(frozen=True)
class Part:
    """A blob that is what its name says; `images` are the hashes of those that a message names, in order."""

    sha256: str
    type: Literal["message", "image"]
    data: bytes
    images: tuple[str, ...]


@dataclass(frozen=True)
class Fragment:
    """A message ready to be sent: its canonical JSON, that with data URLs for images, and their hashes in order."""

    message: bytes
    ready: bytes
    images: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes held; a message without images is its own fragment and is held once."""
        return len(self.message) + (len(self.ready) if self.images else 0)


@dataclass
class _Prompt:
    """A rollout's present prompt, `pinned` until its call ends. `texts` and `images`: parts that came to gather it."""

    messages: tuple[str, ...]
    pinned: bool = True
    texts: dict[str, Part] = field(default_factory=dict)
    images: dict[str, bytes] = field(default_factory=dict)


class Fragments:
    """The store. `budget` is in bytes; `used` is what its fragments take."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.used = 0
        self._ready: dict[str, Fragment] = {}
        """In order of last use, oldest first."""
        self._prompts: dict[str, _Prompt] = {}
        self._holders: Counter[str] = Counter()
        """By message: how many rollouts' present prompts have it."""

    def hold(self, rollout: str, messages: Sequence[str]) -> None:
        """Make `messages` the present prompt of `rollout`, pinned until `unpin`; what only its last one had goes."""
        before = self._prompts.get(rollout)
        self._prompts[rollout] = _Prompt(tuple(messages))
        self._holders.update(set(messages))
        if before is not None:
            self._let_go(before)

    def unpin(self, rollout: str) -> None:
        """The call of `rollout` has its answer: the budget may take its messages."""
        if rollout in self._prompts:
            self._prompts[rollout].pinned = False
            self._shrink()

    def forget(self, rollout: str) -> None:
        """Nothing of `rollout` is wanted any more."""
        prompt = self._prompts.pop(rollout, None)
        if prompt is not None:
            self._let_go(prompt)

    def feed(self, rollout: str, parts: Sequence[Part]) -> None:
        """Take in what the worker of `rollout`, whose prompt is held, sent for it."""
        prompt = self._prompts[rollout]
        for part in parts:
            if part.type == "image":
                prompt.images[part.sha256] = part.data
            else:
                prompt.texts[part.sha256] = part
        for sha256 in prompt.messages:
            self._make(sha256, prompt)
        self._shrink()

    def missing(self, rollout: str) -> list[str]:
        """What must come before the prompt of `rollout` is ready: messages, or where those are here, their images."""
        prompt = self._prompts[rollout]
        wanted: dict[str, None] = {}
        for sha256 in prompt.messages:
            if sha256 in self._ready:
                continue
            if sha256 in prompt.texts:
                wanted.update(dict.fromkeys(image for image in prompt.texts[sha256].images if image not in prompt.images))
            else:
                wanted[sha256] = None
        return list(wanted)

    def prompt(self, rollout: str) -> list[Fragment]:
        """The fragments of the prompt of `rollout`, of which none may be missing (KeyError). Its parts go."""
        prompt = self._prompts[rollout]
        for sha256 in prompt.messages:
            self._ready[sha256] = self._ready.pop(sha256)
        prompt.texts.clear()
        prompt.images.clear()
        return [self._ready[sha256] for sha256 in prompt.messages]

    def _make(self, sha256: str, prompt: _Prompt) -> None:
        """Make the fragment of a message that has all its parts."""
        if sha256 in self._ready or sha256 not in prompt.texts:
            return
        part = prompt.texts[sha256]
        if any(image not in prompt.images for image in part.images):
            return
        ready = message_fragment(part.data, prompt.images) if part.images else part.data
        fragment = Fragment(part.data, ready, part.images)
        self._ready[sha256] = fragment
        self.used += fragment.size

    def _let_go(self, prompt: _Prompt) -> None:
        for sha256 in set(prompt.messages):
            self._holders[sha256] -= 1
            if not self._holders[sha256]:
                del self._holders[sha256]
                self._remove(sha256)

    def _shrink(self) -> None:
        if self.used <= self.budget:
            return
        pinned = {sha256 for prompt in self._prompts.values() if prompt.pinned for sha256 in prompt.messages}
        for sha256 in [sha256 for sha256 in self._ready if sha256 not in pinned]:
            if self.used <= self.budget:
                return
            self._remove(sha256)

    def _remove(self, sha256: str) -> None:
        fragment = self._ready.pop(sha256, None)
        if fragment is not None:
            self.used -= fragment.size


def check_parts(names: Sequence[BlobName], blobs: Sequence[bytes]) -> list[Part]:
    """What came with an ask. WireError where a blob is not what its name says, or a message is no canonical JSON."""
    if len(names) != len(blobs):
        raise WireError(f"{len(names)} blobs are named, but {len(blobs)} came: send one frame for each name")
    return [_check(name, blob) for name, blob in zip(names, blobs, strict=True)]


def _check(name: BlobName, blob: bytes) -> Part:
    if len(blob) != name.size:
        raise WireError(f"blob {name.sha256[:80]} has {len(blob)} bytes, its name says {name.size}: send it again")
    if sha256_hex(blob) != name.sha256:
        raise WireError(f"blob {name.sha256[:80]} has another hash: send it again")
    if name.type == "image":
        return Part(name.sha256, name.type, blob, ())
    try:
        message = json.loads(blob)
        if isinstance(message, dict) and canonical_json(message) == blob:
            return Part(name.sha256, name.type, blob, tuple(image_hashes(message)))
    except (ValueError, RecursionError):
        pass
    raise WireError(f"message {name.sha256} is no canonical JSON object: sort its keys and leave out blanks")
