"""What do OSWorld's routes for commands do? /execute and its kin, /setup/launch, /run_python, /run_bash_script."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from dataclasses import asdict
from typing import Any

from .answers import Answer, Request, Routes, as_json, as_text, failed
from .clock import now, sleep
from .hands import Hands
from .identity import User
from .run import Ended, launch, run
from .windows import listed

EXECUTE_S = 120.0
"""Seconds of a command, as in OSWorld's server."""
PYTHON_S = 30.0
SCRIPT_S = 100.0
INTERPRETERS = ("python", "python3")


class Commands:
    """The routes that run something."""

    def __init__(self, user: User, hands: Hands) -> None:
        self._user = user
        self._hands = hands

    def routes(self) -> Routes:
        """Their table."""
        return {
            ("POST", "/execute"): self.execute,
            ("POST", "/setup/execute"): self.execute,
            ("POST", "/execute_with_verification"): self.verified,
            ("POST", "/setup/execute_with_verification"): self.verified,
            ("POST", "/setup/launch"): self.launch,
            ("POST", "/run_python"): self.python,
            ("POST", "/run_bash_script"): self.script,
        }

    def execute(self, request: Request) -> Answer:
        """Run a command and tell its outputs and exit code."""
        asked = request.json()
        try:
            return as_json(self._run(asked).json())
        except Exception as error:
            return failed(str(error))

    def verified(self, request: Request) -> Answer:
        """Run a command, then wait until what was asked to come of it is there."""
        asked = request.json()
        wanted = asked.get("verification") or {}
        limit = float(asked.get("max_wait_time", 10))
        every = float(asked.get("check_interval", 1))
        try:
            ended = self._run(asked)
            start = now()
            while not self._holds(wanted):
                if now() - start >= limit:
                    said = {**ended.json(), "status": "verification_failed", "wait_time": limit}
                    return as_json(said, 500)
                sleep(every)
            return as_json({**ended.json(), "verification": "passed", "wait_time": now() - start})
        except Exception as error:
            return failed(str(error))

    def launch(self, request: Request) -> Answer:
        """Start a program and leave it running."""
        asked = request.json()
        command, shell = self._command(asked)
        try:
            launch(self._user, command, shell=shell)
        except Exception as error:
            return failed(str(error))
        words = command if isinstance(command, str) else " ".join(command)
        return as_text(f"{words} launched successfully")

    def python(self, request: Request) -> Answer:
        """Run a Python program from a file of its own."""
        code = request.json().get("code")
        if not code:
            return as_json({"status": "error", "message": "Code not supplied!"}, 400)
        with self._user.files(), tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(str(code))
        try:
            ended = run(self._user, [sys.executable, file.name], shell=False, timeout=PYTHON_S)
        except Exception as error:
            said = {"status": "error", "message": str(error), "need_more": False, "output": None, "error": str(error)}
            return as_json({**said, "return_code": -1}, 500)
        finally:
            os.unlink(file.name)
        words = {"status": "success" if ended.returncode == 0 else "error", "message": ended.output + ended.error}
        return as_json(
            {**words, "need_more": False, "output": ended.output, "error": ended.error, "return_code": ended.returncode}
        )

    def script(self, request: Request) -> Answer:
        """Run a bash script; both outputs are one."""
        asked = request.json()
        script = asked.get("script")
        if not script:
            return as_json({"status": "error", "output": "Script not supplied!", "error": "", "returncode": -1}, 400)
        where = self._user.path(str(asked.get("working_dir") or "~"))
        limit = float(asked.get("timeout", SCRIPT_S))
        if not os.path.isdir(where):
            said = {"status": "error", "output": f"Working directory does not exist: {where}", "error": ""}
            return as_json({**said, "returncode": -1}, 400)
        try:
            ended = run(self._user, ["/bin/bash", "-c", str(script)], shell=False, timeout=limit, merged=True, cwd=where)
        except Exception as error:
            return as_json({"status": "error", "output": str(error), "error": "", "returncode": -1}, 500)
        return as_json({**asdict(ended), "status": "success" if ended.returncode == 0 else "error"})

    def _run(self, asked: dict[str, Any]) -> Ended:
        command, shell = self._command(asked)
        code = pyautogui_code(command, shell)
        if code is not None:
            return self._hands.act(code, EXECUTE_S)
        return run(self._user, command, shell=shell, timeout=EXECUTE_S)

    def _command(self, asked: dict[str, Any]) -> tuple[list[str] | str, bool]:
        """The command as it is run: a string without a shell is split, `~/` is the user's home."""
        command, shell = asked.get("command", "" if asked.get("shell") else []), bool(asked.get("shell", False))
        if isinstance(command, str):
            if shell:
                return command, True
            command = shlex.split(command)
        words = [self._user.home + word[1:] if word.startswith("~/") else word for word in map(str, command)]
        # a list with a shell: its first word is the shell's command, as subprocess has it
        return words, shell

    def _holds(self, wanted: dict[str, Any]) -> bool:
        name, command = wanted.get("window_exists"), wanted.get("command_success")
        if name and not any(str(name) in window.title for window in listed(self._user.env["DISPLAY"])):
            return False
        if not command:
            return True
        try:
            return run(self._user, str(command), shell=True, timeout=5).returncode == 0
        except TimeoutError:
            return False


def pyautogui_code(command: list[str] | str, shell: bool) -> str | None:
    """The code of a command that only starts an interpreter to use pyautogui, as OSWorld's client sends each action."""
    if shell or isinstance(command, str) or len(command) != 3:
        return None
    name, flag, code = command
    return code if name in INTERPRETERS and flag == "-c" and "pyautogui" in code else None
