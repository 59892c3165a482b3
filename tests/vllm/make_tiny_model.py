"""How is a vision-language model made that is tiny, random and real to vLLM?

    make_tiny_model.py --out DIR [--seed N]

Writes what `vllm serve DIR --load-format auto` needs: a Qwen3-VL of two text layers and one vision layer with seeded
random weights, a tokenizer of 256 byte tokens and a few of Qwen's special tokens, Qwen's chat layout and its image
processor. The architecture is the published one, so image sizes, image token counts, prefix caching and the HTTP API
are those of a large model of the family; what it says is noise. The weights have a realistic spread, so that a forward
pass by `transformers` confirms its logprobs. Runs in vLLM's own environment (torch, transformers).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

HIDDEN = 64
LOGIT_STD = 3.0
"""Spread of the logits: peaked enough that a wrong logprob is far from the right one."""
MAX_LENGTH = 262144
PATCH = 16
MERGE = 2
PIXELS = {"shortest_edge": 64 * 32 * 32, "longest_edge": 4096 * 32 * 32}
"""Smallest and largest area of an image after the processor's resize, in pixels."""

SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),
]
PLAIN = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
"""Added tokens that stay in the text when special tokens are skipped."""
IDS = {name: 256 + i for i, name in enumerate(SPECIAL + PLAIN)}

CHAT_TEMPLATE = r"""
{%- macro text_of(content) -%}
{%- if content is string -%}{{ content }}
{%- elif content -%}
{%- for part in content -%}
{%- if part.type in ('image', 'image_url') -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif 'text' in part -%}{{ part.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- set last = namespace(user=-1) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- set thought = message.reasoning or message.reasoning_content -%}
{%- if message.role == 'assistant' and thought and loop.index0 > last.user -%}
{{- '<think>\n' + thought + '\n</think>\n\n' -}}
{%- endif -%}
{{- text_of(message.content) + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- if enable_thinking is defined -%}{{- '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}
"""


def model_config() -> dict[str, object]:
    """config.json; the version keeps transformers 5 from taking a local tokenizer for an old Mistral one."""
    shared = {"tie_word_embeddings": False, "dtype": "bfloat16"}
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "transformers_version": "4.57.1",
        **shared,
        "image_token_id": IDS["<|image_pad|>"],
        "video_token_id": IDS["<|video_pad|>"],
        "vision_start_token_id": IDS["<|vision_start|>"],
        "vision_end_token_id": IDS["<|vision_end|>"],
        "text_config": {
            "model_type": "qwen3_vl_text",
            **shared,
            "vocab_size": -(-(256 + len(IDS)) // 64) * 64,
            "hidden_size": HIDDEN,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "hidden_act": "silu",
            "max_position_embeddings": MAX_LENGTH,
            "initializer_range": 0.02,
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "rope_theta": 5000000.0,
            "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]},
            "bos_token_id": IDS["<|endoftext|>"],
            "eos_token_id": IDS["<|im_end|>"],
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": 1,
            "hidden_size": HIDDEN,
            "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": 128,
            "num_heads": 2,
            "in_channels": 3,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [0],
        },
    }


def byte_characters() -> list[str]:
    """The printable character that byte-level BPE (GPT-2's table) writes for each byte value."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def tokenizer() -> dict[str, object]:
    """tokenizer.json: one token per byte, no merges, then the added tokens."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": IDS[name], "content": name, **flags, "special": name in SPECIAL} for name in IDS],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": byte_level,
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {character: byte for byte, character in enumerate(byte_characters())},
            "merges": [],
        },
    }


def tokenizer_config() -> dict[str, object]:
    """tokenizer_config.json, the chat template in it."""
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "model_max_length": MAX_LENGTH,
        "add_bos_token": False,
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "errors": "replace",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE.strip() + "\n",
    }


def generation_config() -> dict[str, object]:
    """generation_config.json: knobs unlike the defaults, as published models have them, which a server takes over."""
    end = [IDS["<|im_end|>"], IDS["<|endoftext|>"]]
    return {
        "bos_token_id": IDS["<|endoftext|>"],
        "pad_token_id": IDS["<|endoftext|>"],
        "eos_token_id": end,
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "repetition_penalty": 1.05,
    }


def processor_config() -> dict[str, object]:
    """What the image and the video processor have in common."""
    return {
        "processor_class": "Qwen3VLProcessor",
        "size": PIXELS,
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": MERGE,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def write_weights(out: Path, seed: int) -> None:
    """model.safetensors: matrices that keep the spread of their input, and a head that gives peaked logits."""
    torch.manual_seed(seed)
    model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(out))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.ndim < 2:
                continue  # norms stay one, biases stay zero
            std = parameter[0].numel() ** -0.5
            if name.endswith("embed_tokens.weight"):
                std = 1.0
            elif name.startswith("lm_head"):
                std = LOGIT_STD * HIDDEN**-0.5
            parameter.copy_(torch.empty(parameter.shape).normal_(0.0, std, generator=generator))
    model.to(torch.bfloat16).save_pretrained(out)


def main() -> None:
    """Write the directory."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--out", required=True, type=Path, help="directory to write, made where missing")
    options.add_argument("--seed", type=int, default=0, help="of the weights (0)")
    chosen = options.parse_args()
    out: Path = chosen.out
    out.mkdir(parents=True, exist_ok=True)

    def write(name: str, value: dict[str, object]) -> None:
        (out / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    write("config.json", model_config())
    write_weights(out, chosen.seed)
    write("config.json", model_config())  # save_pretrained wrote its own
    write("generation_config.json", generation_config())
    write("tokenizer.json", tokenizer())
    write("tokenizer_config.json", tokenizer_config())
    image_processor = {"image_processor_type": "Qwen2VLImageProcessorFast"}
    write("preprocessor_config.json", processor_config() | image_processor)
    write("video_preprocessor_config.json", processor_config() | {"video_processor_type": "Qwen3VLVideoProcessor"})


if __name__ == "__main__":
    main()
