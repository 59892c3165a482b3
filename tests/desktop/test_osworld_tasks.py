"""Can the wheel run OSWorld's own task files? Said to be left out where no copy of them lies beside the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from legato_rl.tasks import find_examples

COPY = Path(os.environ.get("LEGATO_OSWORLD_TASKS") or Path(__file__).resolve().parents[3] / "shared" / "osworld-tasks")
pytestmark = [
    pytest.mark.desktop,
    pytest.mark.skipif(not COPY.is_dir(), reason="OSWorld's task files are not beside this repository: none were tried"),
]

CANNOT_RUN = {
    "chrome/93eabf48-6a27-4cb6-b963-7d5fe1e0d3a9": "its getter 'chrome_appearance_mode_ui' is not in this OSWorld",
    "multi_apps/e8172110-ec08-421b-a6f5-842e6451911f": (
        "its evaluator function 'check_structure_sim_with_threshold' is not in this OSWorld"
    ),
    "vlc/5ac2891a-eacd-4954-b339-98abba077adb": "its evaluator function 'check_play_and_exit' is not in this OSWorld",
}
"""The tasks that are newer than the wheel 1.0.2."""


def test_every_task_file() -> None:
    """All 369 but three; the eight of Google Drive and the 52 with a proxy are named."""
    paths = sorted(find_examples(COPY).glob("*/*.json"))
    entries = [{"task_id": path.stem, "domain": path.parent.name, "config": json.loads(path.read_text())} for path in paths]
    command = [sys.executable, "-m", "legato_rl.workers.desktop.tasks_check"]
    said = subprocess.run(command, input=json.dumps(entries), capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    assert len(entries) == 369
    assert {fault["task"]: fault["fault"] for fault in found["faults"]} == CANNOT_RUN
    assert (len(found["drive"]), len(found["proxy"])) == (8, 52)
