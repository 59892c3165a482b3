"""What plays a task that never ends? The bundled policy server, whose every answer moves the mouse somewhere else.

Prints its URL, and serves until it is ended. An answer has some 200 tokens (this server's tokens are bytes), as a real
policy's has.
"""

from __future__ import annotations

import signal
import sys
from random import Random

import legato_rl.fake.chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer


def mouse_move(random: Random) -> str:
    """An answer."""
    place = f"[{random.randrange(1000)}, {random.randrange(1000)}]"
    call = (
        "<tool_call>\n<function=computer_use>\n<parameter=action>\nmouse_move\n</parameter>\n"
        f"<parameter=coordinate>\n{place}\n</parameter>\n</function>\n</tool_call>"
    )
    return f"Action: Look at another place of the screen.\n{call}"


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
