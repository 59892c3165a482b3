"""What logprobs does the model itself give the tokens that a server answered with?

    forward_logprobs.py MODEL_DIR < {"prompt_token_ids", "token_ids", "image" (base64 PNG)}  > [logprob, ...]

One float32 forward pass by `transformers` over the prompt and the answer, at temperature 1, in vLLM's own environment.
"""

from __future__ import annotations

import base64
import io
import json
import sys

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText


def main() -> None:
    """Read one exchange, write one float per answered token."""
    exchange = json.load(sys.stdin)
    prompt, answer = exchange["prompt_token_ids"], exchange["token_ids"]
    image = Image.open(io.BytesIO(base64.b64decode(exchange["image"]))).convert("RGB")
    model = AutoModelForImageTextToText.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    pixels = AutoImageProcessor.from_pretrained(sys.argv[1])(images=[image], return_tensors="pt")
    ids = torch.tensor([prompt + answer])
    is_image = (ids == model.config.image_token_id).long()
    with torch.no_grad():
        logits = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=is_image,  # places the image on its two-dimensional positions
            pixel_values=pixels["pixel_values"],
            image_grid_thw=pixels["image_grid_thw"],
        ).logits[0]
    # the logits at a position are of the token after it
    logprobs = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
    json.dump(logprobs.gather(1, torch.tensor(answer)[:, None])[:, 0].tolist(), sys.stdout)


if __name__ == "__main__":
    main()
