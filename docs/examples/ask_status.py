"""Where does a running run, or a service, stand? Asks its broker, with zmq and msgpack alone: `python ask_status.py DIR`."""

import json
import secrets
import sys
from pathlib import Path

import msgpack
import zmq

service, run = (Path(sys.argv[1]) / name for name in ("service.json", "run.json"))
found = json.loads((service if service.exists() else run).read_text())
socket = zmq.Context().socket(zmq.DEALER)
socket.setsockopt(zmq.LINGER, 0)
socket.connect(found.get("control", f"ipc://{found['sockets']}/control"))

ask = {"id": secrets.token_hex(8)}
for _ in range(5):  # asked again until answered
    socket.send_multipart([b"legato/2", b"StatusAsk", msgpack.packb(ask)])
    while socket.poll(1000):
        version, kind, body = socket.recv_multipart()[:3]
        answer = msgpack.unpackb(body)
        if kind == b"Refused":
            sys.exit(answer["reason"])
        if kind == b"RunStatus" and answer["id"] == ask["id"]:
            print(json.dumps(answer, indent=1))
            sys.exit()
sys.exit("no answer: the run is over, or the broker is away")
