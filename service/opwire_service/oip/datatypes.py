"""The protocol's names of data types."""

from __future__ import annotations

from opwire.tensor import DataType

NAMES = {
    DataType.FLOAT32: "FP32",
    DataType.FLOAT16: "FP16",
    DataType.FLOAT64: "FP64",
    DataType.UINT8: "UINT8",
    DataType.UINT16: "UINT16",
    DataType.UINT32: "UINT32",
    DataType.UINT64: "UINT64",
    DataType.INT8: "INT8",
    DataType.INT16: "INT16",
    DataType.INT32: "INT32",
    DataType.INT64: "INT64",
}
"""The data types common to both: the protocol has no 4-bit types, and DirectML has no BOOL, BYTES or BF16."""

DATA_TYPES = {name: data_type for data_type, name in NAMES.items()}
