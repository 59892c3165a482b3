"""How is a pyautogui command done without a new interpreter? A process of the user forks itself, pyautogui imported.

`python3 -m guest_server.hand FD`: reads one line of JSON per command from the socket FD, with two descriptors for the outputs,
answers `ended` and the child's exit code. Before that the child itself says `began` and its pid, so that who may act is known
whatever becomes of the hand. It holds no X connection: each child opens its own, since two processes on one connection take
each other's replies.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
import types
from typing import Any

from .clock import now, sleep

LINE = 1 << 24
"""Bytes of a command that are read at once."""


def prepare() -> Any:
    """pyautogui, imported, without its X connection, its pause moved from behind each call to before the next one."""
    import pyautogui

    platform = pyautogui._pyautogui_x11
    platform._display.close()
    due = 0.0
    check = pyautogui.failSafeCheck

    def pause_before() -> None:
        if (wait := due - now()) > 0:
            sleep(wait)
        check()

    def pause_after(asked: bool) -> None:
        nonlocal due
        if asked:
            due = now() + pyautogui.PAUSE

    pyautogui.failSafeCheck = pause_before
    pyautogui._handlePause = pause_after
    return platform


def run_code(code: str) -> int:
    """Run `code` as `python3 -c` does; the exit code."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = ["-c"]
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
        return 0
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return (left.code or 0) & 0xFF
        print(left.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # our own frame is none of the command's
        traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        return 1


def child(platform: Any, line: socket.socket, code: str, out: int, err: int) -> None:
    """Be the command's interpreter, and end. Nothing of the command is done where nobody can be told who does it."""
    returncode = 1
    try:
        os.setsid()
        line.sendall(b"began %d\n" % os.getpid())
        line.close()
        os.dup2(out, 1)
        os.dup2(err, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from Xlib.display import Display

        platform._display = Display(os.environ["DISPLAY"])
        returncode = run_code(code)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(returncode)


def serve(line: socket.socket) -> None:
    """Say `ready`, or what went wrong, in a line; then do one command after another until the server hangs up."""
    try:
        platform = prepare()
    except BaseException as error:
        line.sendall(" ".join(f"{type(error).__name__}: {error}".split()).encode("utf-8", "replace") + b"\n")
        raise
    gc.collect()
    gc.freeze()
    line.sendall(b"ready\n")
    while True:
        data, fds, _, _ = socket.recv_fds(line, LINE, 2)
        parts = [data]
        while parts[-1] and not parts[-1].endswith(b"\n"):
            parts.append(line.recv(LINE))
        if not parts[-1]:
            return
        data = b"".join(parts)
        pid = os.fork()
        if pid == 0:
            child(platform, line, json.loads(data)["code"], *fds)
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(pid, 0)
        line.sendall(b"ended %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    serve(socket.socket(fileno=int(sys.argv[1])))
