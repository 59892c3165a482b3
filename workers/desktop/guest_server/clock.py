"""What time is it in the guest? The only module of this program that reads a clock."""

from __future__ import annotations

import time

now = time.monotonic
"""Seconds from an arbitrary start; never goes back."""

wall = time.time
"""Seconds since the epoch, to be compared with the times of files."""

sleep = time.sleep
