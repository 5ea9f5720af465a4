"""Makes upscale.onnx: a small network that doubles the width and height of images."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def make_model() -> onnx.ModelProto:
    """Returns the model. Its weights are multiples of 1/8, so that the file is the same everywhere."""
    generator = np.random.default_rng(1)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "features": generator.integers(-8, 9, (4, 3, 3, 3)).astype(np.float32) / 8,
        "colors": generator.integers(-8, 9, (3, 4, 3, 3)).astype(np.float32) / 8,
        "scales": np.array([1, 1, 2, 2], np.float32),
        "zero": np.array(0, np.float32),
        "one": np.array(1, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "features"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], "double", mode="linear"),
        helper.make_node("Conv", ["c", "colors"], ["d"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["d", "zero", "one"], ["upscaled"], "clip"),
    ]
    graph = helper.make_graph(
        nodes,
        "upscale",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("upscaled", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


if __name__ == "__main__":
    path = Path(__file__).with_name("upscale.onnx")
    onnx.save(make_model(), path)
    print(path)
