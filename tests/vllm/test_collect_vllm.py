"""Is the record of a run against a real vLLM the server's own word, token by token?"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from serve_vllm import VllmServer

from legato_rl import DesktopConfig, PolicyConfig, collect, export_steps, load_request
from legato_rl.cli.main import legato_rl
from legato_rl.prompt_ids import rebuild
from legato_rl.records import Rollout, Step
from legato_rl.request import body_sha256

pytestmark = pytest.mark.vllm

FORWARD = Path(__file__).with_name("forward_logprobs.py")
TOLERANCE = 0.1
"""The server computes in bfloat16, the forward pass in float32; another token or distribution would be off by more than 1."""
CLICK = (
    r"Action: click\n<tool_call>\n<function=computer_use>\n<parameter=action>\nleft_click\n</parameter>\n"
    r"<parameter=coordinate>\n\[\d{1,3}, \d{1,3}\]\n</parameter>\n</function>\n</tool_call>"
)
"""A grammar that makes a random model speak actions."""
TASK = {"instruction": "Fill the form in.", "config": [], "evaluator": {"func": "exact_match"}}


def run(server: VllmServer, out: Path, **changes: Any) -> list[Rollout]:
    """One run of two tasks by the fake desktop and the real server; its rows."""
    policy = PolicyConfig(
        server.url, server.model, version="step-41", api_key=server.key, **{"max_tokens": 48, "seed": 5, **changes}
    )
    desktop = DesktopConfig(backend="fake", screen_size=(320, 256), seed=3)
    tasks = [{"task_id": name, "config": TASK} for name in ("one", "two")]
    summary = collect(tasks, policy, out, desktop=desktop, desktops=2, group=2, max_steps=3)
    assert summary["groups"]["closed"] == 2
    return [Rollout.model_validate_json(line) for line in (out / "rollouts.jsonl").read_bytes().splitlines()]


def check_steps(out: Path, row: Rollout) -> list[list[int]]:
    """Each step's ids, logprobs and hashes agree with each other and with the files; the full prompts, by step."""
    full: list[int] = []
    prompts = []
    for step in row.steps:
        assert step.response.token_ids
        assert len(step.response.logprobs) == len(step.response.token_ids) == step.model.completion_tokens
        assert body_sha256(out, step.model_dump(mode="json")["request"]) == step.request.body_sha256
        assert step.request.prompt is not None
        prompt = rebuild(full, step.request.prompt)
        assert len(prompt) == step.model.prompt_tokens
        images = sum(len(load_images(message)) for message in load_request(out, step.model_dump(mode="json")["request"]))
        assert len(step.request.prompt.images) == images > 0
        prompts.append(prompt)
        full = prompt + step.response.token_ids
    return prompts


def load_images(message: dict[str, Any]) -> list[str]:
    """The data URLs of a message's images."""
    parts = message["content"] if isinstance(message["content"], list) else []
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def forward(server: VllmServer, step: Step, prompt: list[int], image: str) -> list[float]:
    """What `transformers` gives the step's tokens, from the stored prompt ids and image."""
    exchange = {"prompt_token_ids": prompt, "token_ids": step.response.token_ids, "image": image.partition(",")[2]}
    done = subprocess.run(
        [server.python, FORWARD, server.model_dir], input=json.dumps(exchange), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    logprobs: list[float] = json.loads(done.stdout)
    return logprobs


def test_probe_finds_what_training_needs(vllm_server: VllmServer) -> None:
    """Every row that training needs is there; a wrong key is named, with exit code 1 or 2."""
    arguments = ["probe", "--policy-url", vllm_server.url, "--model", vllm_server.model, "--json"]
    good = CliRunner().invoke(legato_rl, arguments, env={"LEGATO_POLICY_KEY": vllm_server.key})
    assert good.exit_code == 0, good.output
    report = json.loads(good.stdout)
    assert vllm_server.key not in good.output
    assert all(row["state"] == "ok" for row in report["rows"] if row["needed"]), report
    bad = CliRunner().invoke(legato_rl, arguments, env={"LEGATO_POLICY_KEY": "wrong"})
    assert bad.exit_code in (1, 2)
    assert "key" in bad.output


def test_random_text_has_the_models_own_logprobs(vllm_server: VllmServer, tmp_path: Path) -> None:
    """Stored logprobs equal a float32 forward pass over the stored ids and the stored image: nothing was re-tokenised."""
    rows = run(vllm_server, tmp_path / "run")
    checked = 0
    for row in rows[:2]:
        prompt = check_steps(tmp_path / "run", row)[0]
        step = row.steps[0]
        messages = load_request(tmp_path / "run", step.model_dump(mode="json")["request"])
        (image,) = [url for message in messages for url in load_images(message)]
        assert step.response.logprobs == pytest.approx(forward(vllm_server, step, prompt, image), abs=TOLERANCE)
        checked += 1
    assert checked == 2
    # A group whose attempts share one seed would be G copies.
    answers = {tuple(row.steps[0].response.token_ids or ()) for row in rows}
    assert len(answers) == len(rows)


def test_actions_over_several_steps(vllm_server: VllmServer, tmp_path: Path) -> None:
    """With a grammar the model speaks actions: three steps, a growing prompt told as differences, and an export of it."""
    out = tmp_path / "run"
    rows = run(vllm_server, out, max_tokens=400, extra_body={"structured_outputs": {"regex": CLICK}})
    usable = [row for row in rows if row.usable]
    assert len(usable) == 4
    for row in usable:
        assert row.n_steps == 3
        assert all(step.actions[0].action.startswith("pyautogui.click(") for step in row.steps)
        prompts = check_steps(out, row)
        assert len(prompts[0]) < len(prompts[1]) < len(prompts[2])
        assert row.policy.version == "step-41"
    report = export_steps(out, tmp_path / "train.jsonl", inline_images=True)
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(lines) == report.steps == 12
    assert all(line["response_token_ids"] and line["prompt_token_ids"] for line in lines)
    assert not any(vllm_server.key in path.read_text(errors="replace") for path in out.rglob("*") if path.is_file())
