"""What plays a task that never ends? The bundled policy server, whose every answer moves the mouse somewhere else.

Prints its URL, and serves until it is ended. The answers have about the length of a real policy's.
"""

from __future__ import annotations

import signal
import sys
from random import Random

import legato_rl.fake.chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer

THOUGHT = "The window is still open and what it asks for is not done, so I look at another place of the screen first. "


def mouse_move(random: Random) -> str:
    """An answer."""
    place = f"[{random.randrange(1000)}, {random.randrange(1000)}]"
    parameters = f"<parameter=action>\nmouse_move\n</parameter>\n<parameter=coordinate>\n{place}\n</parameter>"
    return f"{THOUGHT * 4}\nAction: Look.\n<tool_call>\n<function=computer_use>\n{parameters}\n</function>\n</tool_call>"


def main() -> None:
    """`endless_policy.py LATENCY`, in seconds."""
    legato_rl.fake.chat.next_move = lambda sight, random, skill, malformed: mouse_move(random)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = FakePolicyServer(FakePolicyConfig(latency=float(sys.argv[1])))
    print(server.start(), flush=True)
    signal.sigwait({signal.SIGTERM})
    server.close()


if __name__ == "__main__":
    main()
