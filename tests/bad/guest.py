"""What can a guest do wrong? A server of OSWorld's guest API that is scripted, down to when it says nothing and hangs up."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs

from PIL import Image

SIZE = (320, 240)
PAGE = b"<!doctype html>\n<title>500 Internal Server Error</title>"
PATIENCE_S = 60.0
"""Seconds after which a hanging answer is given up, so that a broken test ends."""


def picture(size: tuple[int, int] = SIZE, shade: int = 0) -> bytes:
    """A screenshot with something on it; another `shade` is another picture."""
    image = Image.new("RGB", size, (30, 30, 30))
    image.paste((200, shade, 0), (0, 0, size[0] // 2, size[1] // 2))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class Answer:
    """What is sent back. `cut`: bytes of the body after which the connection is closed."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


def as_json(value: Any, status: int = 200) -> Answer:
    """`value` as JSON."""
    return Answer(json.dumps(value).encode(), status)


def done(rc: int = 0, output: str = "", error: str = "") -> Answer:
    """The answer to a command that ran."""
    return as_json({"status": "success", "output": output, "error": error, "returncode": rc})


class Hang(Exception):
    """Say nothing and keep the connection."""


class Drop(Exception):
    """Close the connection without a word."""


Habit = Callable[[], Answer]
"""What a route does about a call; Hang and Drop are raised."""


def hang() -> Answer:
    """A Habit."""
    raise Hang


def drop() -> Answer:
    """A Habit."""
    raise Drop


FAULTS: dict[str, Habit] = {
    "error": lambda: Answer(PAGE, 500, "text/html"),
    "page": lambda: Answer(PAGE, 200, "text/html"),
    "empty": lambda: Answer(b"", 200, "application/json"),
    "half": lambda: Answer(b'{"status": "success", "output"' + b" " * 100, cut=20),
    "drop": drop,
}
"""Faults that any route may have."""


@dataclass
class Guest:
    """A guest on 127.0.0.1. `files` are what /file gives, `commands` what commands do, by a pattern of their words.

    `habits`: by route, what it does in place of its usual answer, one call each; the last one stays.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    commands: dict[str, Answer] = field(default_factory=dict)
    habits: dict[str, list[Habit]] = field(default_factory=dict)
    windows: list[str] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Route and decoded body of every call."""
    size: tuple[int, int] = SIZE

    def __post_init__(self) -> None:
        self._over = Event()
        guest = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                guest._serve(self, None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                guest._serve(self, guest._decoded(self.headers.get("Content-Type") or "", body))

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self) -> Guest:
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def die(self) -> None:
        """Refuse every connection from now on."""
        self.__exit__()

    def ran(self, pattern: str) -> list[Any]:
        """The commands that match, in order."""
        calls = [body["command"] for route, body in self.asked if route.endswith("/execute")]
        return [command for command in calls if re.search(pattern, _words(command))]

    def _decoded(self, kind: str, body: bytes) -> Any:
        if kind.startswith("application/json"):
            return json.loads(body)
        if kind.startswith("multipart/form-data"):
            message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\n\n" + body)
            parts = {part.get_param("name", header="content-disposition"): part for part in message.get_payload()}  # type: ignore[union-attr]
            return {name: part.get_payload(decode=True) for name, part in parts.items()}  # type: ignore[union-attr]
        return {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}

    def _serve(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        self.asked.append((handler.path, body))
        try:
            answer = self._answer(handler.path, body)
        except Hang:
            self._over.wait(PATIENCE_S)
            handler.close_connection = True
            return
        except Drop:
            handler.close_connection = True
            return
        with suppress(OSError):
            handler.send_response(answer.status)
            handler.send_header("Content-Type", answer.kind)
            handler.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(answer.body[: answer.cut])
            if answer.cut is not None:
                handler.close_connection = True

    def _answer(self, route: str, body: Any) -> Answer:
        habits = self.habits.get(route)
        if habits:
            return (habits.pop(0) if len(habits) > 1 else habits[0])()
        match route:
            case "/screenshot":
                return Answer(picture(self.size), kind="image/png")
            case "/terminal":
                return as_json({"status": "success", "output": None})
            case "/execute" | "/setup/execute":
                return self._command(body["command"])
            case "/file":
                return self._file(body["file_path"])
            case "/setup/upload":
                self.files[body["file_path"].decode()] = body["file_data"]
                return Answer(b"File Uploaded", kind="text/html")
            case "/list_directory":
                found = [name for name in self.files if name.startswith(body["path"])]
                return as_json({"directory_tree": {"type": "directory", "children": found}})
            case "/setup/open_file" if body["path"] not in self.files:
                return as_json({"error": "not found"}, 404)
            case "/setup/launch" | "/setup/open_file" | "/setup/activate_window" | "/setup/close_window":
                return Answer(b"done", kind="text/html")
            case "/wallpaper":
                return as_json({"error": "no wallpaper"}, 404)
            case _:
                return Answer(b"<!doctype html><title>404 Not Found</title>", 404, "text/html")

    def _file(self, path: str) -> Answer:
        if path not in self.files:
            return as_json({"error": "File not found"}, 404)
        return Answer(self.files[path], kind="application/octet-stream", headers={"Content-Disposition": "attachment"})

    def _command(self, command: Any) -> Answer:
        words = _words(command)
        for pattern, answer in self.commands.items():
            if re.search(pattern, words):
                return answer
        if words == "wmctrl -lx":
            return done(output="\n".join(f"0x{i:08x}  0 {window}" for i, window in enumerate(self.windows)))
        return done(output=words.removeprefix("echo ") + "\n" if words.startswith("echo ") else "")


def _words(command: Any) -> str:
    return " ".join(command) if isinstance(command, list) else command
