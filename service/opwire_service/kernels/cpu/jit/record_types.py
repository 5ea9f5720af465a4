"""Records in kernels: their numba types. An attribute of a record is one load from a fixed place."""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, get_args, get_origin

from llvmlite import ir
from numba import extending, types
from numba.core import typeconv
from numba.core.typing import templates

from .element import ADDRESS, FLOAT64, INT64, pointer_to
from .records import BYTES, Record, Row, rows, width_of

numba: Any = extending
typing: Any = templates
conversion: Any = typeconv


class RecordType(types.Type):
    """numba type of the address of a record."""

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(f"{record.__module__}.{record.__qualname__}")

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        return conversion.Conversion.safe if other == ADDRESS else None


class RowType(types.Type):
    """numba type of the address of adjacent numbers or records."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"row of {type_of(kind)}")


_NUMBERS = {int: INT64, float: FLOAT64, bool: types.boolean}


@cache
def type_of(kind: Any) -> Any:
    """Returns the numba type of a parameter or a field with this annotation."""
    if isinstance(kind, rows):
        return RowType(kind.kind)
    if get_origin(kind) is Row:
        return RowType(*get_args(kind))
    return RecordType(kind) if isinstance(kind, type) and issubclass(kind, Record) else _NUMBERS.get(kind, ADDRESS)


for _type in (RecordType, RowType):

    @numba.register_model(_type)
    class _AddressModel(numba.models.PrimitiveModel):  # type: ignore[misc] # numba is untyped
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, ir.IntType(64))

    @numba.unbox(_type)  # type: ignore[untyped-decorator] # numba is untyped
    def _unbox(kind: Any, address: Any, c: Any) -> Any:
        return numba.NativeValue(c.unbox(ADDRESS, address).value)


def _load(builder: Any, address: Any, kind: Any) -> Any:
    """Emits the load of a number, or passes on the address of anything else."""
    if kind is float:
        return builder.load(pointer_to(builder, address, ir.DoubleType()))
    if kind not in (int, bool):
        return address
    number = builder.load(pointer_to(builder, address, ir.IntType(64)))
    return builder.icmp_signed("!=", number, ir.Constant(number.type, 0)) if kind is bool else number


def _past(builder: Any, address: Any, numbers: int) -> Any:
    return builder.add(address, ir.Constant(address.type, BYTES * numbers)) if numbers else address


@numba.infer_getattr
class _Attributes(typing.AttributeTemplate):  # type: ignore[misc] # numba is untyped
    key = RecordType

    def generic_resolve(self, record: Any, name: str) -> Any:
        field = record.record._fields.get(name)
        return None if field is None else type_of(field if isinstance(field, rows) else field.kind)


@numba.lower_getattr_generic(RecordType)  # type: ignore[untyped-decorator] # numba is untyped
def _attribute(context: Any, builder: Any, record: Any, address: Any, name: str) -> Any:
    field = record.record._fields[name]
    return _load(builder, _past(builder, address, field.place), rows if isinstance(field, rows) else field.kind)


@typing.infer_global(operator.getitem)
class _Items(typing.AbstractTemplate):  # type: ignore[misc] # numba is untyped
    def generic(self, args: Any, kws: Any) -> Any:
        row, index = args
        if isinstance(row, RowType) and isinstance(index, types.Integer):
            return typing.signature(type_of(row.kind), row, ADDRESS)
        return None


@numba.lower_builtin(operator.getitem, RowType, types.Integer)  # type: ignore[untyped-decorator] # numba is untyped
def _item(context: Any, builder: Any, call: Any, args: Any) -> Any:
    kind = call.args[0].kind
    address, index = args
    return _load(
        builder, builder.add(address, builder.mul(index, ir.Constant(index.type, BYTES * width_of(kind)))), kind
    )


@numba.lower_cast(RecordType, types.Integer)  # type: ignore[untyped-decorator] # numba is untyped
def _cast(context: Any, builder: Any, source: Any, target: Any, address: Any) -> Any:
    return address
