"""Do the pages that follow from the code say what the code says?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).resolve().parents[2] / "docs" / "generate.py"


def test_the_generated_pages_have_not_drifted() -> None:
    """`make docs` would change none of them."""
    check = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr
