"""How much of a prompt has been seen before? A longest-prefix cache in whole blocks with a budget of tokens. PURE."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

Key = tuple[int, tuple[int, ...]]
"""A block: the number of the block before it, and its own tokens."""


class PrefixCache:
    """A tree of blocks; the least recently used leaf goes first when more than `budget` tokens are held."""

    def __init__(self, budget: int, block: int = 16) -> None:
        self.block = block
        self.hits = 0
        """Tokens found, over all lookups."""
        self.queries = 0
        """Tokens looked up."""
        self._room = budget // block
        self._blocks: OrderedDict[Key, int] = OrderedDict()
        self._numbers = count(1)

    def __len__(self) -> int:
        """Tokens held."""
        return len(self._blocks) * self.block

    def lookup(self, keys: Sequence[int]) -> int:
        """Tokens of the longest cached prefix, in whole blocks; at least one token is always left to compute."""
        path = self._path(keys, max(0, len(keys) - 1))
        self._touch(path)
        self.queries += len(keys)
        self.hits += len(path) * self.block
        return len(path) * self.block

    def insert(self, keys: Sequence[int]) -> None:
        """Remember this sequence, as far as the budget holds it."""
        path = self._path(keys, len(keys))
        last = self._blocks[path[-1]] if path else 0
        for nth in range(len(path), min(len(keys) // self.block, self._room)):
            key = (last, tuple(keys[nth * self.block : (nth + 1) * self.block]))
            last = self._blocks[key] = next(self._numbers)
            path.append(key)
        self._touch(path)
        while len(self._blocks) > self._room:
            self._blocks.popitem(last=False)

    def _path(self, keys: Sequence[int], length: int) -> list[Key]:
        path: list[Key] = []
        last = 0
        for start in range(0, length // self.block * self.block, self.block):
            key = (last, tuple(keys[start : start + self.block]))
            if key not in self._blocks:
                break
            last = self._blocks[key]
            path.append(key)
        return path

    def _touch(self, path: list[Key]) -> None:
        """Make the path the newest, its root newest of all: the oldest block of the cache is then always a leaf."""
        for key in reversed(path):
            self._blocks.move_to_end(key)
