"""Four-bit tensors over HTTP, in both directions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opwire import Client
from opwire.client.arrays import fit
from opwire.tensor import BufferTensorDesc, DataType

X = np.linspace(-3, 3, 7, dtype=np.float32)
SCALE = np.array([0.5], np.float32)
RIGHT = [2, 4, 6, 8, 10, 12, 14]
"""X in steps of one half, offset by 8."""


@pytest.mark.parametrize("encoding", ["binary", "base64", "numbers"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_quantizing_and_dequantizing_round_trips(server_url, encoding, device):
    scale = {"DataType": "FLOAT32", "Sizes": [1]}
    floats, nibbles = ({"DataType": name, "Sizes": [7]} for name in ("FLOAT32", "UINT4"))
    common = {"QuantizationType": "SCALE", "QuantizationTensors": [scale]}
    forth = {"type": "QUANTIZE", "desc": {"InputTensor": floats, "OutputTensor": nibbles, **common}}
    back = {"type": "DEQUANTIZE", "desc": {"InputTensor": nibbles, **common}}
    with Client(server_url, encoding=encoding) as client:
        found = client.execute(forth, {"InputTensor": X, "QuantizationTensors": [SCALE]}, device=device).output
        assert (found.dtype, found.tolist()) == (np.dtype(np.uint8), RIGHT)
        again = client.execute(back, {"InputTensor": found, "QuantizationTensors": [SCALE]}, device=device).output
    assert again.tolist() == X.tolist()


def test_methods_accept_ml_dtypes_arrays(server_url):
    zero_point = np.array([8], ml_dtypes.uint4)
    with Client(server_url) as client:
        found = client.quantize(X, [SCALE, zero_point], quantization_type="SCALE_ZERO_POINT").output
        assert found.tolist() == RIGHT
        again = client.dequantize(
            found.astype(ml_dtypes.uint4), [SCALE, zero_point], quantization_type="SCALE_ZERO_POINT"
        ).output
    assert again.tolist() == X.tolist()


def test_a_packed_buffer_can_be_sent_as_is(server_url):
    desc = BufferTensorDesc(DataType.INT4, (2, 2), (3, 1))
    buffer, view = desc.allocate()
    desc.put(np.array([[-8, 7], [1, -1]], np.int8), view)
    operator = {
        "type": "DEQUANTIZE",
        "desc": {
            "InputTensor": desc.to_json(),
            "QuantizationType": "SCALE",
            "QuantizationTensors": [{"DataType": "FLOAT16", "Sizes": [1, 1]}],
        },
    }
    scale = np.array([[2]], np.float16)
    with Client(server_url) as client:
        for given in (buffer, fit(buffer, desc, "x")):
            found = client.execute(operator, {"InputTensor": given, "QuantizationTensors": [scale]}).output
            assert found.tolist() == [[-16, 14], [2, -2]]
