"""Does all of it work together? A real vLLM, OSWorld's real package in an environment of its own, real container desktops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serve_vllm import VllmServer
from test_collect_vllm import CLICK, check_steps
from whole_runs import check_accounts

from legato_rl import DesktopConfig, PolicyConfig, collect, export_steps
from legato_rl.records import Rollout
from legato_rl.tasks import read_tasks
from legato_rl.workers.desktop.owners import DESKTOP, ours

pytestmark = [pytest.mark.vllm, pytest.mark.desktop]

TASKS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "container_tasks.json"


def test_a_group(vllm_server: VllmServer, engine: Any, desktop_image: str, osworld_python: Path, tmp_path: Path) -> None:
    """Two rollouts of a task at once, by a model that clicks at random: a real 0 each, and every token as it was sampled."""
    out = tmp_path / "run"
    policy = PolicyConfig(
        vllm_server.url,
        vllm_server.model,
        version="step-41",
        api_key=vllm_server.key,
        max_tokens=400,
        seed=5,
        extra_body={"structured_outputs": {"regex": CLICK}},
    )
    desktop = DesktopConfig(
        backend="container",
        image=desktop_image,
        osworld_python=osworld_python,
        screen_size=(1280, 720),
        ram_gb=2,
        cpus=1,
        cache_dir=tmp_path / "cache",
    )
    summary = collect(read_tasks(str(TASKS))[:1], policy, out, desktop=desktop, desktops=2, group=2, max_steps=3)
    assert summary["rewards"] == {"asked": 2, "usable": 2, "mean": 0.0, "success_rate": 0.0}
    assert (summary["model_calls"]["logprobs_share"], summary["model_calls"]["prompt_ids_share"]) == (1.0, 1.0)
    rows = [Rollout.model_validate(row) for row in check_accounts(out)]
    assert [row.reset for row in rows] == ["booted", "booted"]
    for row in rows:
        assert (row.status, row.reward, row.n_steps) == ("ok", 0.0, 3)
        for step in row.steps:
            (action,) = step.actions
            assert (action.action.startswith("pyautogui.click("), action.rc) == (True, 0)
        prompts = check_steps(out, row)
        assert len(prompts[0]) < len(prompts[1]) < len(prompts[2])
    report = export_steps(out, tmp_path / "train.jsonl", inline_images=True)
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(lines) == report.steps == 6
    assert all(line["response_token_ids"] and line["prompt_token_ids"] for line in lines)
    assert [one for one in ours(engine) if one.labels[DESKTOP].startswith(summary["run_id"])] == []
