"""Which instant does a time in a record name? The way back from `legato_rl.clock.iso`. Reads no clock."""

from __future__ import annotations

from datetime import datetime, timezone

from legato_rl.errors import RecordError


def instant(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 time; without an offset it is UTC. RecordError where it is none."""
    try:
        # Python 3.10 does not read the Z.
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise RecordError(f"{text!r:.80} is no ISO 8601 time, as in 2026-01-31T09:30:00.000Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
