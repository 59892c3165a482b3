"""Has the disk room for what a run will store? DISK: looks at what is free there."""

from __future__ import annotations

import logging
import shutil

from legato_rl.config import Settings
from legato_rl.errors import ConfigError
from legato_rl.rundir import RunDir

log = logging.getLogger("legato_rl")

IMAGE_BYTES = 1_100_000
"""A screenshot of 1920x1080 with a photo as wallpaper (docs/benchmarks.md); others by their pixels."""
IMAGE_PIXELS = 1920 * 1080
FAKE_IMAGE_BYTES = 80_000
"""A fake desktop's screenshot of 1920x1080, less its photo."""
STEP_BYTES = 30_000
"""A step's part of its row: the ids of a new screenshot, and an answer's ids and logprobs."""
MIB = 2**20


def needed_bytes(settings: Settings, rollouts: int, steps: int) -> int:
    """Bytes that rollouts of so many steps in all take at most: an image a step and a last one each, and the rows."""
    desktop = settings.desktop
    width, height = desktop.screen_size
    image = IMAGE_BYTES * width * height // IMAGE_PIXELS
    if desktop.backend == "fake":
        image = FAKE_IMAGE_BYTES + desktop.fake.photo_kb * 1024
    return int((steps + rollouts) * image + steps * STEP_BYTES)


def check_space(folder: RunDir, settings: Settings, rollouts: int, steps: int) -> None:
    """Warn where what is free, less what is to stay free, may not hold the rollouts. ConfigError where nothing may begin."""
    free, least = shutil.disk_usage(folder.root).free // MIB, settings.min_free_gb * 1024
    if free < least:
        raise ConfigError(
            f"min-free is {settings.min_free_gb:g} GiB: {free} MiB are free where {folder.root} is; make space there, or "
            "lower min-free"
        )
    needed = needed_bytes(settings, rollouts, steps) // MIB
    if free - least < needed:
        log.warning(
            "%d rollouts of %d steps may take up to %d MiB, and %d MiB are free where %s is: the run will wait for space",
            *(rollouts, steps, needed, free, folder.root),
        )
