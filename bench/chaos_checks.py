"""What is wrong with a run that went through chaos? Its folder is verified, counted, and played again. DISK, reads only.

A try's whole course follows from (seed, group, attempt, try): the faults that its fake desktop has, the policy's moves and
the reward. So each row is held against what the desktop faked: a graded row must be of a try without a fault, and have the
moves and the reward of the play; a failure must be one that was faked.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from courses import Course, play

from legato_rl.errors import LegatoError
from legato_rl.fake.chat import Chat
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.waits import Fault, Waits
from legato_rl.records import RolloutKey
from legato_rl.rundir import RunDir, RunFile, TaskSpec
from legato_rl.verify import examine

KINDS = {
    "lost": "attempts of a run that is said to have finished, without a final row",
    "doubled": "keys, or ends of an attempt, that are there twice",
    "torn": "lines of rollouts.jsonl that are no whole row",
    "invented": "graded rows without the moves or the reward that their try has when it is played again",
    "after_fault": "graded rows of tries in which the desktop had failed",
    "masked": "failures of a desktop or an evaluator that were not faked",
    "untrue": "faults that verify found",
    "processes_left": "processes that were there when a command had ended",
    "sockets_left": "folders of sockets that were there at the end",
    "stuck": "runs that did not come to their end",
    "changed": "finished runs that another resume changed",
    "bugs": "exceptions that nobody expected, in any log or output",
}
"""What is counted; 0 of each is right."""

ENDS = ("DONE", "FAIL")
GRADED = ("graded", "timed_out_graded")
TRACE = re.compile(r"^Traceback .*\n(?:[ \t].*\n)*(.*)|^.*nobody expected.*", re.MULTILINE)
"""A traceback, with its last line, or a role's word on an exception that it does not know."""
FAKED = re.compile(r"the fake (desktop's|evaluator)")


class Findings(Counter[str]):
    """How often something of KINDS was found, and a sentence for each."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def found(self, kind: str, what: str) -> None:
        """One more."""
        assert kind in KINDS, kind
        self[kind] += 1
        self.words.append(f"{kind}: {what}")


def check_folder(folder: Path, server: FakePolicyConfig, findings: Findings) -> list[dict[str, Any]]:
    """Look at a run that has finished; its rows."""
    run = RunDir(folder)
    try:
        for fault in examine(folder).faults:
            findings.found("untrue", f"{fault.where}: {fault.code}: {fault.message}")
    except LegatoError as error:
        findings.found("untrue", str(error))
    try:
        file, tasks = run.load_run(), {task.group_id: task for task in run.load_tasks()}
    except LegatoError as error:
        findings.found("untrue", str(error))
        return []
    rows = _rows(run, findings)
    _check_accounts(rows, file, list(tasks), findings)
    chat = Chat(server)
    for row in rows:
        if row["outcome"] in (*GRADED, "desktop_failed", "evaluator_failed"):
            _check_course(row, file, tasks[row["group_id"]], chat, findings)
    return rows


def check_logs(logs: Path, findings: Findings) -> None:
    """Exceptions that nobody expected."""
    for log in sorted(path for path in logs.glob("*") if path.is_file()):
        for trace in TRACE.finditer(log.read_text(errors="replace")):
            if not FAKED.search(trace[1] or ""):
                findings.found("bugs", f"{log}: {trace[0]}")


def _rows(run: RunDir, findings: Findings) -> list[dict[str, Any]]:
    rows = []
    data = run.rollouts.read_bytes() if run.rollouts.exists() else b""
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        try:
            assert line.endswith(b"\n")
            rows.append(json.loads(line))
        except (AssertionError, ValueError):
            findings.found("torn", f"rollouts.jsonl:{number}")
    return rows


def _check_accounts(rows: list[dict[str, Any]], run: RunFile, groups: list[str], findings: Findings) -> None:
    keys = Counter((row["group_id"], row["attempt"], row["try"]) for row in rows)
    ends = Counter((row["group_id"], row["attempt"]) for row in rows if row["status"] != "retried")
    for name, count in [*keys.items(), *ends.items()]:
        if count > 1:
            findings.found("doubled", f"{name} is there {count} times")
    for attempt in ((group, number) for group in groups for number in range(run.settings.attempts)):
        if attempt not in ends:
            findings.found("lost", f"{attempt} has no final row")


def _check_course(row: dict[str, Any], run: RunFile, task: TaskSpec, chat: Chat, findings: Findings) -> None:
    """Hold a row against its try, played again."""
    course = _play(row, run, task, chat)
    told = f"{row['rollout_id']} is {row['outcome']} with reward {row['reward']}"
    if row["outcome"] not in GRADED:
        due = course.draft.error and course.draft.error.type
        if row["error"]["type"] != due:
            findings.found("masked", f"{told}, error {row['error']['type']}; the play has {due}")
        return
    if strikes := _strikes(row, run):
        findings.found("after_fault", f"{told}, after {', '.join(strikes)}")
    if row["outcome"] == "graded" and not course.agrees(row):
        findings.found("invented", f"{told}; the play is {course.draft.outcome.value} with reward {course.draft.reward}")


def _play(row: dict[str, Any], run: RunFile, task: TaskSpec, chat: Chat) -> Course:
    """Without what would end the process that plays."""
    desktop = run.settings.desktop
    fake = desktop.fake.model_copy(update={"crash": 0.0, "hang": 0.0, "fail_boot": 0.0})
    settings = run.settings.model_copy(update={"desktop": desktop.model_copy(update={"fake": fake})})
    key = RolloutKey(run=run.run_id, group=row["group_id"], attempt=row["attempt"], try_=row["try"])
    return play(run.model_copy(update={"settings": settings}), task, key, chat)


def _strikes(row: dict[str, Any], run: RunFile) -> list[str]:
    """The faults that a graded row's desktop had in what the row says was done."""
    desktop = run.settings.desktop
    assert desktop.seed is not None
    waits = Waits(desktop.fake, desktop.seed, row["group_id"], row["attempt"], row["try"])
    acts = sum(action["action"] not in ENDS for step in row["steps"] for action in step["actions"])
    # One look at the screen before each step, and one after the last.
    chances: dict[Fault, int] = {
        "fail_reset": 1, "fail_observe": len(row["steps"]) + 1, "crash": acts, "hang": acts, "fail_act": acts,
        "fail_evaluate": 1, "bug_evaluate": 1,
    }  # fmt: skip
    return [fault for fault, count in chances.items() if any(waits.strikes(fault) for _ in range(count))]
