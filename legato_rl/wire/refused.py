"""What is said of a message that cannot be accepted, on any socket? PURE: knows no socket."""

from __future__ import annotations

from legato_rl.frames import Message


class Refused(Message):
    """any -> any: the message before could not be accepted; `reason` says why in one sentence. Nothing was done.

    `about` is its kind, `of` what it names itself by (`ident`). `again`: the same message may be accepted later (a full
    disk), so ask again; else it never will.
    """

    about: str
    of: str = ""
    reason: str
    again: bool = False
