"""A trainer's loop with zmq and msgpack alone: `python docs/examples/trainer_loop_raw.py svc docs/examples/tasks.json 2`.

That is the service's folder (legato-rl serve --dir svc …), a file of tasks, and a number of batches. In place of the folder may
be the service's tcp:// address, and then the folder of client.secret and server.public as a fourth argument.
"""

import json
import secrets
import sys
from pathlib import Path

import msgpack
import zmq


class Control:
    """Asks the broker, and asks again under the same id until there is an answer: asking twice does nothing more."""

    def __init__(self, address, keys=None):
        self.socket = zmq.Context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if keys:
            secret = (Path(keys) / "client.secret").read_bytes().strip()
            self.socket.curve_secretkey, self.socket.curve_publickey = secret, zmq.curve_public(secret)
            self.socket.curve_serverkey = (Path(keys) / "server.public").read_bytes().strip()
        self.socket.connect(address)

    def ask(self, kind, **fields):
        """The answer's fields; the program ends where the broker refuses, or is silent for a minute."""
        ask = {"id": secrets.token_hex(8), **fields}
        for _ in range(60):
            self.socket.send_multipart([b"legato/2", kind.encode(), msgpack.packb(ask)])
            while self.socket.poll(1000):
                _version, answered, body = self.socket.recv_multipart()[:3]
                answer = msgpack.unpackb(body)
                if answered == b"Refused" and answer["of"] in (ask["id"], ""):
                    sys.exit(f"{kind} was refused: {answer['reason']}")
                if answered != b"Refused" and answer["id"] == ask["id"]:
                    return answer
        sys.exit(f"no answer to {kind}")


def closed_groups(control, run):
    """Each group of a run as it closes, once, until the run is over."""
    seen = 0
    while True:
        events = control.ask("EventsAsk", run=run, after=seen, wait_s=30)["events"]
        for event in events:
            seen = event["n"]
            if event["kind"] == "group_closed":
                yield event["data"]
            if event["kind"] == "run_finished":
                return
        if not events and control.ask("StatusAsk", run=run)["state"] == "stopped":
            sys.exit(f"{run} stopped early; Submit with resume and that name has it go on")


def pause(control):
    """Return when no model call is under way, and none will be before a resume."""
    control.ask("PauseAsk", mode="abort")
    while True:
        status = control.ask("StatusAsk")
        if status["policy"] == "paused" and status["running"] == 0:
            return


def main(where, tasks_file, batches, keys=None):
    """Train for some batches; the training itself would be where the rewards are printed."""
    tasks = json.loads(Path(tasks_file).read_text(encoding="utf-8"))
    address = where if "://" in where else json.loads((Path(where) / "service.json").read_text())["control"]
    if address.startswith("tcp://") and not keys:
        sys.exit(f"{address} is for those who have keys: name the folder of client.secret and server.public as fourth argument")
    control = Control(address, keys)
    for batch in range(int(batches)):
        run = control.ask("Submit", tasks=tasks, settings={"group": 2})["run"]
        for group in closed_groups(control, run):
            print(f"{run} {group['group']}: rewards {group['rewards']}, sampled from {', '.join(group['versions'])}")
        pause(control)
        control.ask("PolicyAsk", version=f"raw-step-{batch + 1}")
        control.ask("ResumeAsk")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
