"""What do OSWorld's routes say of the session? Its platform, terminal, accessibility tree and recordings."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from .answers import Answer, Request, Routes, as_json, as_text, failed
from .identity import User
from .run import run

TREE_S = 60.0
FINISH_S = 20.0


class Session:
    """The routes about the session as a whole."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._lock = threading.Lock()
        self._recording: subprocess.Popen[bytes] | None = None
        self._film = ""

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("GET", "/terminal"): self.terminal,
            ("GET", "/platform"): self.platform,
            ("GET", "/accessibility"): self.accessibility,
            ("POST", "/start_recording"): self.start_recording,
            ("POST", "/end_recording"): self.end_recording,
        }

    def terminal(self, request: Request) -> Answer:
        """The text of the terminal in front: null, since the terminal of this desktop (xterm) tells AT-SPI nothing."""
        return as_json({"output": None, "status": "success"})

    def platform(self, request: Request) -> Answer:
        """The system's name."""
        return as_text(platform.system())

    def accessibility(self, request: Request) -> Answer:
        """The tree of all programs."""
        how: dict[str, Any] = {"env": {**self._user.env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
        command = [sys.executable, "-m", f"{__package__}.accessibility"]
        ended = run(self._user, command, shell=False, timeout=TREE_S, **how)
        if ended.returncode != 0:
            return failed(ended.error[-1000:])
        return as_json({"AT": ended.output})

    def start_recording(self, request: Request) -> Answer:
        """Film the screen, where ffmpeg is installed."""
        with self._lock:
            if self._recording is not None and self._recording.poll() is None:
                return failed("Recording is already in progress.", 400)
            ffmpeg = shutil.which("ffmpeg")
            if ffmpeg is None:
                return failed("this desktop has no ffmpeg: it cannot record")
            with self._user.files(), tempfile.NamedTemporaryFile(suffix=".mp4", delete=False) as file:
                self._film = file.name
            display = ["-f", "x11grab", "-draw_mouse", "1", "-framerate", "30", "-i", self._user.env["DISPLAY"]]
            encode = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", self._film]
            self._recording = subprocess.Popen(
                [ffmpeg, "-y", "-loglevel", "error", *display, *encode],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **self._user.popen(),
            )
            return as_json({"status": "success", "message": "Started recording successfully."})

    def end_recording(self, request: Request) -> Answer:
        """The film."""
        with self._lock:
            recording, self._recording = self._recording, None
            if recording is None or recording.poll() is not None:
                return failed("No recording in progress to stop.", 400)
            recording.send_signal(signal.SIGINT)
            try:
                recording.wait(FINISH_S)
            except subprocess.TimeoutExpired:
                recording.kill()
                recording.wait()
                return failed("ffmpeg did not finish its file")
            with open(self._film, "rb") as file:
                data = file.read()
            os.unlink(self._film)
            return Answer(data, 200, "video/mp4", {"Content-Disposition": "attachment"})
