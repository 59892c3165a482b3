"""What does docs/protocol.md say beyond the code? Its first part, and what each field of a message means."""

from __future__ import annotations

INTRO = """\
# The wire protocol

What the processes say to each other, over ZeroMQ; a trainer in any language speaks socket [control](#control). From
Python use `legato_rl.ControlClient`, which has a method for each of its messages.
[architecture.md](architecture.md#sockets) has the sockets; each is a ROUTER that one process binds, and its peers
connect to it with a DEALER.

## Frames

A message is three frames, and one more for each blob (an image or a chat message):

| frame | bytes |
|---|---|
| version | `{version}` |
| kind | the message's name, as below |
| body | a msgpack map of its fields, {max_body} at most; unknown and missing fields are refused; so are {bounds} |
| blob … | raw bytes, in the order in which the body names them |

`{example!r}` is, in hex:

```
{frames}
```

The body is `{{"id": "7f3a", "run": ""}}`: `82` is a map of two entries, `a2`, `a4` and `a3` begin strings of two,
four and three bytes, `a0` is an empty one. Fields that "may be left out" may: `{{"id": "7f3a"}}` asks the same.
Below, each message has an example as JSON and the frames that it is; a lone surrogate, which JSON writes as an
escape, is in UTF-8's manner three bytes.

## Rules

- **Version.** Every message carries it. There is no negotiation: a server answers any other version than `{version}`
  with `Refused` and does nothing else, so both sides must be of the same version.
- **Nothing is assumed delivered.** A send never blocks, and drops at the socket's bound. An ask is repeated until it
  is answered, and asking twice changes nothing: on `control` the `id`, drawn at random by the asker, tells that it is
  the same one.
- **A message that cannot be read** (frames, version, kind, a field) is answered with `Refused` by a server, counted,
  and takes nothing down. A client counts it and skips it.
- **Blobs** must be what the body names: in number, size and SHA-256. A chat message must be canonical JSON. The sink
  also refuses an image that is no PNG, and a message whose images are not named by hash.

## Where `control` is

`service.json` in a service's folder names its address as `control`; of a run of its own it is the socket `control` in
the folder that `run.json` names as `sockets`. At `tcp://` it is a CURVE server: set `ZMQ_CURVE_SERVERKEY` to the
service's `server.public`, and the pair `ZMQ_CURVE_PUBLICKEY`, `ZMQ_CURVE_SECRETKEY` to keys of which the service has
the public one ([operating.md](operating.md#trainers-elsewhere)).

## A trainer's loop

| step | ask | until |
|---|---|---|
| a batch | `Submit` | `Submitted` |
| what happened | `EventsAsk` after the last number known | `Events`, at once or within `wait_s` |
| train | | an event `group_closed`: rollouts, rewards, advantages, versions; the rollouts are in the run's `rollouts.jsonl` |
| calls stand still | `PauseAsk`, then `StatusAsk` | a `RunStatus` with `policy` `paused` and `running` 0 |
| weights change | your server's own way | |
| their name | `PolicyAsk` with `version` | `Accepted` |
| go on | `ResumeAsk` | `Accepted` |

[examples/trainer_loop.py](examples/trainer_loop.py) is this loop with `ControlClient`, and
[examples/trainer_loop_raw.py](examples/trainer_loop_raw.py) with zmq and msgpack alone; both are tests. A loop that was cut
asks for its run again, by `Submit` with `resume` and the run's id as `name`, wherever that run stands; so it chooses the name,
and saves it, before it submits: a run that is not there is refused, and is then submitted under that name. The events of
a run are numbered from 1 without a gap, follow from what is stored, and are the same however often and by whomever
they are asked for. [examples/ask_status.py](examples/ask_status.py), which runs as `python
docs/examples/ask_status.py DIR`, is one exchange:

```python
{script}```
"""

MEANINGS: dict[str, str] = {
    "Refused.about": "the kind of the message that was refused",
    "of": "what the refused message names itself by (a call's id, a row's rollout id), for its sender",
    "again": "the same message may be accepted later (the disk was full)",
    "tasks": "the groups: entries of a [tasks file](collect.md#tasks), each with its `config`",
    "Submit.settings": "what differs from the service's own, as in `run.json`; `policy` is a map of its own",
    "name": "the run's id; empty draws one",
    "priority": "runs of a higher one get desktops first",
    "resume": "go on with run `name`, which stopped early",
    "retry_errors": "with `resume`: run attempts again that ended in an `error` of kind env",
    "folder": "the run's folder on the service's machine",
    "StatusAsk.run": "the run's id; empty for the one that was submitted last",
    "RunStatus.run": "the run's id; empty where there is none",
    "StopAsk.run": "the run's id; empty for the one that was submitted last, `*` for all",
    "CancelAsk.run": "the run's id; empty for the one that was submitted last",
    "EventsAsk.run": "the run's id; empty for the one that was submitted last",
    "PolicyAsk.run": "the run's id; `*` for all runs and those of later",
    "CancelAsk.group": "only this group's attempts; empty for any",
    "CancelAsk.task": "only attempts of groups of this task; empty for any",
    "CancelAsk.attempt": "only this attempt of `group`; nil for any",
    "mode": "what becomes of the calls in the air: `abort` them, or `wait` for them",
    "PolicyAsk.model": "the model's name at the server; empty: as it is",
    "PolicyName.model": "the model's name at the server",
    "version": "the policy version to stamp; empty: as it is",
    "PolicyName.version": "the policy version to stamp",
    "RunBrief.version": "the policy version that new rollouts get",
    "url": "the server's base URL; empty: as it is",
    "ProxyOrder.url": "the server's base URL",
    "when": "for every rollout from its next call on, or only for tries that are begun from now on",
    "max_inflight": "model calls at once at most; nil: as many as there are desktops",
    "change": "how many desktops more, or fewer below 0",
    "EventsAsk.after": "number of the last event that is known; 0 asks from the start",
    "wait_s": "seconds to wait for an event where there is none yet",
    "EventsAsk.limit": "events wanted at most",
    "Events.events": "the events, in order of their numbers",
    "Events.last": "number of the run's last event",
    "Events.run": "the run's id",
    "Feed.events": "the desktop events, in order of their numbers",
    "events_after": "number of the last desktop event that is known",
    "events_last": "number of the last desktop event in the file",
    "free_mb": "MiB free where the run is stored; -1 where that is not known",
    "paused": "how the service was paused; nil where it is not",
    "draining": "no further try is begun",
    "RunBrief.state": "where the run stands",
    "park": "have no desktop, once what is held has ended",
    "order": "number of the last order that is carried out",
    "number": "counts the orders that differ",
    "policies": "every run's policies; a call of a run that is not there waits",
    "names": "the run's policies; an assignment's `policy` is a place in this list, from 0",
    "step_timeout": "seconds of one HTTP attempt",
    "retries": "further HTTP attempts after a time-out or a failure of a healthy server",
    "pause": "admit no call; `abort` also ends those in the air. nil: go on",
    "CallAsk.policy": "the assignment's `policy`",
    "Assignment.policy": "the number of the run's policy that was in force when the try was handed out",
    "Assignment.settings": "the run's settings, as in `run.json`",
    "today": "the date that prompts name",
    "DesktopEvent.n": "the event's number in the file, from 1",
    "DesktopEvent.after": "how many rows were stored before it",
    "Event.n": "the event's number in the run, from 1",
    "Event.kind": "what happened",
    "data": "what is to be known of it, by kind",
    "versions": "the policy versions of the rollout's steps",
    "reason": "why, in one sentence for people",
    "worker": "the worker's name, `worker-000` and so on",
    "boot": "random, drawn once per process; an answer repeats the asker's",
    "ready": "a new try may be held",
    "phase": "what the worker is doing",
    "holds": "the try that is held; nil where none is",
    "Beat.stored": "the last key that was seen stored",
    "Beat.dropped": "the last key that was given back because the process is to end; nil where none was",
    "built": "desktops built by this process, the failed ones included",
    "build_failures": "how many of those did not pass their self-check",
    "Beat.message": "why the last desktop did not pass its self-check; empty where it did",
    "started": "when the process began, in seconds of the machine's monotonic clock",
    "assign": "the try to hold; nil where none is to be begun",
    "held": "the try that `stop` and `drop` are about",
    "stop": "end the held try in a row, for this reason",
    "drop": "end the held try without a row",
    "rebuild": "the number of the desktop that is to be built, counted as `built` counts; 0 asks for none",
    "leave": "exit once nothing is held",
    "boot_ask": "the number of the boot or revert that the worker waits for or does; 0 where it does none",
    "may_boot": "the number of the boot that may go on; 0 where none may",
    "ProxyBeat.state": "whether calls are admitted to the model server",
    "queued": "model calls that wait",
    "running": "model calls that are at the server",
    "ProxyBeat.message": "why the server counts as down; empty while it is up",
    "CallFailed.message": "what happened, in one sentence for people",
    "gave_up": "the server was down for `--server-wait` seconds",
    "without_model": "the runs whose calls wait, since the server does not know their model",
    "RunWithoutModel.message": "which model, and the server's words",
    "RunWithoutModel.gave_up": "they waited long enough: stop the run",
    "call": "which call",
    "CallPending.state": "where the call stands now",
    "CallPending.taken": "names the time that the call was taken in; another one says that it was forgotten in between",
    "ProxyBeat.down_s": "seconds down since the last completion",
    "CallPending.down_s": "seconds the server was down",
    "queued_s": "seconds it waited for a slot",
    "CallFailed.queued_s": "seconds it did not run",
    "stood_s": "seconds in which the rollout's own time stood still",
    "running_s": "seconds it was at the server, over all attempts",
    "paused_s": "seconds the run was paused",
    "messages": "the prompt's messages by hash, in order",
    "CallAsk.params": "the request body less `messages` and `model`",
    "CallReply.params": "the request body that was sent, less `messages`",
    "previous": "hash of the canonical JSON of the last step's `[prompt.sha256, response.token_ids]`; empty without these",
    "deadline_s": "seconds that the rollout has left; nil without a limit",
    "blobs": "names of the blob frames that follow, in order",
    "hashes": "the blobs that are needed",
    "BlobsStored.hashes": "the blobs that are stored",
    "response": "what the server answered",
    "body_sha256": "hash of the canonical body with images by name",
    "prompt": "the prompt's token ids; nil where the server gave none",
    "model": "what the call took",
    "CallFailed.type": "a short cause to count by; `rollout_timeout` is the rollout's own time-out",
    "BlobName.type": "what the bytes must be",
    "PutRow.row": "a row of [rollouts.jsonl](rollouts.md#a-row) less `schema`, `status` and `usable`",
    "RowStored.row": "the row that stands",
    "duplicate": "a row stood under this key before; the one that was sent is dropped",
    "key": "which try",
    "after": "number of the last row that is known; 0 asks from the start",
    "limit": "rows wanted at most; the sink gives 5000 at most",
    "Feed.rows": "the rows, in order of their numbers",
    "RunStatus.rows": "stored rows by status",
    "last": "number of the last row in the file",
    "id": "chosen by the asker; the answer repeats it",
    "PutDesktopEvent.id": "unique per event",
    "desktop": "the worker's name",
    "event": "what became of the desktop",
    "at": "when, ISO 8601 in UTC",
    "RunStatus.state": "where the run stands",
    "groups": "groups by how they stand",
    "attempts_total": "attempts of the run, extras included",
    "attempts_ended": "attempts that have their final row",
    "policy": "how the model server stands; also `down` where it does not know the run's model; `unknown` until told",
    "policy_message": "why it is down; else empty",
    "sink_message": "why rows and blobs cannot be written now; else empty",
    "trouble": "why rows and blobs cannot be written now; else empty",
    "lease": "random, drawn by the worker when it begins the try",
    "step": "which step of the try, from 0",
    "past_actions": "only the grading or the storing is left",
    "task_id": "the task's id",
    "domain": "the OSWorld domain; nil for an inline task",
    "task": "the task itself (instruction, evaluator …)",
    "max_steps": "policy calls at most",
    "meta": "the task's own, echoed in the row",
    "sha256": "SHA-256 in lower-case hex",
    "size": "bytes of the frame",
    "rollout": "the rollout's id, `run:group:attempt:try`",
    "digest": "hash over the prompt's hashes and the parameters",
    "total": "all groups",
    "closed": "groups with the graded rows that close them",
    "short": "groups that ended without closing",
    "open": "the others",
    "n": "the row's number in the file, from 1",
    "outcome": "what happened",
    "status": "what that means for the attempt",
    "reward": "0 to 1; nil where the try was not graded",
    "run": "the run's id",
    "group": "the group's id",
    "attempt": "which attempt of the group, from 0",
    "try": "which try of the attempt, from 0",
}
"""By `Class.field`, or by `field` where all classes mean the same by it."""
