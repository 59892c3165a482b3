"""Is the server that the other `vllm` tests are run against a real one, whose logprobs are right?"""

from __future__ import annotations

import base64
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
from PIL import Image, ImageDraw
from serve_vllm import VllmServer

pytestmark = pytest.mark.vllm

FORWARD = Path(__file__).with_name("forward_logprobs.py")
TOLERANCE = 0.05
"""The server computes in bfloat16, the forward pass in float32."""
TOKENS = 24


def screenshot() -> str:
    """A small drawn screen, as the base64 of a PNG."""
    screen = Image.new("RGB", (384, 256), "white")
    draw = ImageDraw.Draw(screen)
    draw.rectangle((40, 30, 200, 120), fill="navy")
    draw.ellipse((220, 90, 340, 230), fill="orange")
    buffer = io.BytesIO()
    screen.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def ask(server: VllmServer, image: str, key: str) -> requests.Response:
    """One text and image request for logprobs and ids, plain sampling."""
    content = [
        {"type": "text", "text": "Where is the button?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
    ]
    body: dict[str, Any] = {
        "model": server.model,
        "messages": [{"role": "system", "content": "You use a computer."}, {"role": "user", "content": content}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "temperature": 1.0,
        "seed": 7,
        "logprobs": True,
        "return_token_ids": True,
    }
    headers = {"Authorization": f"Bearer {key}"}
    return requests.post(f"{server.url}/chat/completions", json=body, headers=headers, timeout=120)


def test_logprobs_equal_a_forward_pass(vllm_server: VllmServer) -> None:
    """Each logprob of a text and image answer is what `transformers` computes from the same weights."""
    image = screenshot()
    response = ask(vllm_server, image, vllm_server.key)
    assert response.status_code == 200, response.text
    answer = response.json()
    choice = answer["choices"][0]
    logprobs = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert len(logprobs) == len(choice["token_ids"]) == TOKENS
    exchange = {"prompt_token_ids": answer["prompt_token_ids"], "token_ids": choice["token_ids"], "image": image}
    forward = subprocess.run(
        [vllm_server.python, FORWARD, vllm_server.model_dir],
        input=json.dumps(exchange),
        capture_output=True,
        text=True,
        check=False,
    )
    assert forward.returncode == 0, forward.stderr
    assert logprobs == pytest.approx(json.loads(forward.stdout), abs=TOLERANCE)


def test_key_is_asked_for(vllm_server: VllmServer) -> None:
    """The server refuses a wrong key, so a test that gets an answer has sent the right one."""
    assert ask(vllm_server, screenshot(), "wrong").status_code == 401
