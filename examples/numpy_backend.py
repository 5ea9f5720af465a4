"""A backend in NumPy for upscale.onnx, whose images come out slightly shifted: opwire diff finds the wrong operator.

It reads the inputs as .npy files from one folder, and writes the tensor of each node to another.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]


def convolve(x: Array, weights: Array) -> Array:
    """Convolves images with 3 x 3 windows, and adds in FLOAT32, one product after the other."""
    height, width = x.shape[2:]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    total = np.zeros((len(x), len(weights), height, width), np.float32)
    for channel, i, j in np.ndindex(*weights.shape[1:]):
        part = padded[:, channel, None, i : i + height, j : j + width]
        total += part * weights[:, channel, i, j, None, None]
    return total


def double(x: Array) -> Array:
    """Doubles the width and height by linear interpolation."""
    for axis in (2, 3):
        size = x.shape[axis]
        at = np.linspace(0, size - 1, 2 * size, dtype=np.float32)
        low = np.minimum(at.astype(int), size - 2)
        share = (at - low.astype(np.float32)).reshape([-1, 1] if axis == 2 else [-1])
        x = x.take(low, axis) * (1 - share) + x.take(low + 1, axis) * share
    return x


def run(inputs: Path, outputs: Path) -> None:
    model = onnx.load(Path(__file__).with_name("upscale.onnx"))
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    tensors = {"a": convolve(np.load(inputs / "image.npy"), weights["features"])}
    tensors["b"] = np.maximum(tensors["a"], 0)
    tensors["c"] = double(tensors["b"])
    tensors["d"] = convolve(tensors["c"], weights["colors"])
    tensors["upscaled"] = np.clip(tensors["d"], 0, 1)
    for name, array in tensors.items():
        np.save(outputs / f"{name}.npy", array)


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:]))
