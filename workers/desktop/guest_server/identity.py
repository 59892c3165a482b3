"""As whom does the guest act? The desktop's user: its ids, its session's environment, and its rights on files."""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class User:
    """The desktop's user. `env` is what its session's programs were started with."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    env: dict[str, str]

    def popen(self) -> dict[str, Any]:
        """Arguments of `subprocess.Popen` that start a program as this user, from its home."""
        who: dict[str, Any] = {"cwd": self.home, "env": self.env}
        if os.geteuid() == 0:
            who.update(user=self.uid, group=self.gid, extra_groups=list(self.groups))
        return who

    def path(self, text: str) -> str:
        """The absolute path that `text` means to this user: `~` and `$NAME` expanded, relative ones from the home."""
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        for name, value in sorted(self.env.items(), key=lambda item: -len(item[0])):
            text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
        return os.path.normpath(os.path.join(self.home, text))

    @contextmanager
    def files(self) -> Iterator[None]:
        """Open, make and list files as this user, in the calling thread alone (Linux keeps these ids per thread)."""
        if os.geteuid() != 0:
            yield
            return
        libc = ctypes.CDLL(None, use_errno=True)
        libc.setfsgid(self.gid)
        libc.setfsuid(self.uid)
        try:
            yield
        finally:
            libc.setfsuid(0)
            libc.setfsgid(0)


def find_user(name: str, session_env: str) -> User:
    """The user called `name`. `session_env` has a line NAME=VALUE for each variable of its session."""
    entry = pwd.getpwnam(name)
    env = dict(line.split("=", 1) for line in session_env.splitlines() if "=" in line)
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return User(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, {"HOME": entry.pw_dir, **env})
