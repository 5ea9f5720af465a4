"""The operators' examples, run through the client and compared with their declared outputs."""

from __future__ import annotations

import numpy as np

from opwire import Client, DataType
from opwire.operator import Example
from opwire.operators import OPERATORS
from opwire.tensor import Array

EXAMPLES = [(operator.name, example) for operator in OPERATORS.values() for example in operator.examples]


def array(values: object, data_type: str) -> Array:
    """Converts nested lists to an array; NumPy parses "NaN" and "Infinity"."""
    return np.array(values, np.float64 if "FLOAT" in data_type else object).astype(DataType[data_type].dtype)


def check(client: Client, name: str, example: Example) -> None:
    """Runs an example; the outputs must equal the declared ones, bit for bit."""
    result = client.execute({"type": name, "desc": example.desc}, example.inputs, feature_level=example.level)
    assert result.device == "cpu"
    assert list(result.outputs) == list(example.outputs)
    for output, right in example.outputs.items():
        found = result.outputs[output]
        pairs = zip(found, right, strict=True) if isinstance(found, list) else [(found, right)]
        for each, values in pairs:
            np.testing.assert_array_equal(each, array(values, DataType.of(each.dtype).name), strict=True)
