"""The tensors of a graph under construction: no elements yet, views that share bytes, and Python's operators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from math import prod
from operator import index
from typing import Any, NoReturn, SupportsIndex, cast

import numpy as np

from ..desc import Report, data_type_name
from ..errors import ContractViolation
from ..tensor import Array, BufferTensorDesc, DataType, packed_strides
from ..tensor_desc import read_tensor
from .arrays import ArrayLike, Symbolic, number_of
from .calls import checked_name
from .methods import OperatorMethods


class NodeMethods(OperatorMethods["GraphTensor", "GraphTensor"]):
    """What a graph offers its tensors: a method for each operator, and constants."""

    @abstractmethod
    def constant(self, array: ArrayLike) -> GraphTensor:
        """Adds a constant, to share it between nodes."""

    def of_number(self, value: float, data_type: DataType, rank: int) -> GraphTensor:
        """Returns a single element. Unlike a constant of a graph, the operator needs no higher level than graphs do."""
        desc = {"DataType": data_type.name, "Sizes": [1] * rank}
        return self.fill_value_constant(output_tensor=desc, value_data_type=data_type, value=value)

    @abstractmethod
    def undone_on_error(self) -> AbstractContextManager[None]:
        """Returns a context that removes the nodes added within it if an error leaves it."""


class GraphTensor(Symbolic):
    """A symbolic tensor of a graph under construction: it has a data type and sizes, but no elements.

    Arithmetic and comparison operators add nodes. Their operands are broadcast as in NumPy, by strides of 0: other
    tensors of the graph, arrays, which become constants, and Python numbers, which take the data type of the tensor.
    Comparisons return 1 or 0 as UINT32.

    Attributes:
        desc: the desc of the tensor.
        source: its name in the graph.
        outputs: the outputs of the node that produces it, by name; empty for an input or a constant.
        graph: the graph it belongs to.
        is_view: whether it is a view of that tensor, with other sizes or strides.
        stand_in: a placeholder array with its data type and sizes, to pass to calls; the elements mean nothing.
    """

    __array_ufunc__ = None  # NumPy leaves operators to this class, and refuses its own functions
    __iter__ = None

    def __init__(
        self,
        graph: NodeMethods,
        source: str,
        desc: BufferTensorDesc,
        outputs: Mapping[str, GraphTensor],
        *,
        is_view: bool = False,
    ) -> None:
        self.desc = desc
        self.source = source
        self.outputs = outputs
        self.graph = graph
        self.is_view = is_view
        self.stand_in = _stand_in(self, desc)

    @property
    def data_type(self) -> DataType:
        return self.desc.data_type

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.desc.sizes

    def __getitem__(self, output: str) -> GraphTensor:
        """Returns another output of the same node."""
        found = self.outputs.get(checked_name(output, "the name of an output"))
        if found is None:
            raise KeyError(f"{output!r} is not an output; available: {', '.join(self.outputs) or 'none'}")
        return found

    def __repr__(self) -> str:
        strides = "" if self.desc.strides is None else f" with strides {list(self.desc.strides)}"
        return f"<GraphTensor {self.source}: {self.data_type.name} {list(self.sizes)}{strides}>"

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Refuses to be an array, whose elements would become a constant of the graph.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self!r} has no elements yet, so NumPy cannot compute with it; {_INSTEAD}")

    def __bool__(self) -> NoReturn:
        """Refuses to be a condition.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self!r} has no elements yet, so it is neither true nor false; {_INSTEAD}")

    def with_strides(self, sizes: Iterable[int], strides: Iterable[int]) -> GraphTensor:
        """Returns a view of the same bytes with other sizes and strides, in elements. A stride of 0 repeats elements.

        Raises:
            ContractViolation: there is no tensor desc with these sizes and strides.
            ValueError: the view exceeds the bytes of the tensor.
        """
        total = self.desc.total_size_in_bytes
        desc = desc_of(self.data_type, sizes, strides)
        if desc.minimum_size_in_bytes > total:
            layout = f"sizes {list(desc.sizes)} with strides {list(desc.element_strides)}"
            raise ValueError(f"{layout} take {desc.minimum_size_in_bytes} bytes; {self!r} has {total}")
        contiguous = desc.strides == packed_strides(desc.sizes)
        desc = BufferTensorDesc(desc.data_type, desc.sizes, None if contiguous else desc.strides, total)
        return GraphTensor(self.graph, self.source, desc, self.outputs, is_view=True)

    def reshape(self, *sizes: SupportsIndex | Iterable[SupportsIndex]) -> GraphTensor:
        """Returns a view with other sizes and as many elements. One of them may be -1: what the others leave.

        A tensor with strides is made contiguous by a node first.

        Raises:
            ValueError: the number of elements would change.
        """
        listed = _integers(sizes)
        left = prod(size for size in listed if size != -1)
        if listed.count(-1) == 1 and left > 0:
            listed = [self.desc.element_count // left if size == -1 else size for size in listed]
        if prod(listed) != self.desc.element_count or min(listed, default=1) < 0:
            message = f"{self!r} has {self.desc.element_count} elements; it cannot be reshaped to {_integers(sizes)}"
            raise ValueError(message)
        whole = self if _is_contiguous(self.desc) else self.graph.element_wise_identity(self)
        return whole.with_strides(listed, packed_strides(tuple(listed)))

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex]) -> GraphTensor:
        """Returns a view with its dimensions in another order, reversed by default.

        Raises:
            ValueError: the axes are not a permutation of those of the tensor.
        """
        order = _integers(axes) or [*reversed(range(len(self.sizes)))]
        if sorted(order) != [*range(len(self.sizes))]:
            raise ValueError(f"axes are {order}; {self!r} has the axes 0 to {len(self.sizes) - 1}, each once")
        sizes, strides = self.sizes, self.desc.element_strides
        return self.with_strides([sizes[axis] for axis in order], [strides[axis] for axis in order])

    def broadcast_to(self, sizes: tuple[int, ...]) -> GraphTensor:
        """Returns a view with larger sizes, aligned at the last dimension as in NumPy, by strides of 0."""
        if sizes == self.sizes:
            return self
        added = len(sizes) - len(self.sizes)
        known = zip(self.sizes, self.desc.element_strides, sizes[added:], strict=True)
        strides = [0 if size < target else stride for size, stride, target in known]
        return self.with_strides(sizes, [0] * added + strides)

    def _operand(self, other: object) -> GraphTensor | None:
        """Returns the other operand as a tensor of the graph, or None if it cannot be one."""
        if isinstance(other, GraphTensor):
            return other
        if isinstance(other, np.generic) or (isinstance(other, np.ndarray) and other.ndim == 0):
            given = DataType.of(other.dtype)
            if given is not self.data_type:
                raise TypeError(f"{other!r} is {given.name}, and {self!r} is {self.data_type.name}; they must agree")
            return self._filled(other.item())
        if isinstance(other, int | float):
            return self._filled(self._number(other))
        is_array = hasattr(other, "__array__") or hasattr(other, "__dlpack__")
        return self.graph.constant(cast(ArrayLike, other)) if is_array else None

    def _number(self, value: float) -> float:
        """Returns a Python number as one of this tensor's data type; only floats are rounded to it."""
        number = number_of(value, self.data_type)
        if number is None:
            raise TypeError(f"{value!r} is no {self.data_type.name}, the data type of {self!r}")
        return number

    def _filled(self, value: float) -> GraphTensor:
        return self.graph.of_number(value, self.data_type, len(self.sizes))

    def _with(self, other: object, method: Callable[..., GraphTensor], *, swapped: bool = False) -> GraphTensor:
        """Adds a node with two operands, broadcast to common sizes."""
        with self.graph.undone_on_error():
            operand = self._operand(other)
            if operand is None:
                return NotImplemented  # type: ignore[no-any-return]  # which Python's operators expect
            first, second = (operand, self) if swapped else (self, operand)
            sizes = _common(first, second, first.sizes, second.sizes)
            return method(first.broadcast_to(sizes), second.broadcast_to(sizes))

    def _divided(self, other: object, *, swapped: bool = False) -> GraphTensor:
        if not self.data_type.is_float:
            raise TypeError(f"{self!r} cannot be divided exactly; graph.element_wise_divide rounds to integers")
        return self._with(other, self.graph.element_wise_divide, swapped=swapped)

    def _product(self, other: object, *, swapped: bool = False) -> GraphTensor:
        """Adds a product of matrices, with all dimensions before the last two broadcast."""
        with self.graph.undone_on_error():
            operand = self._operand(other)
            if operand is None:
                return NotImplemented  # type: ignore[no-any-return]  # which Python's operators expect
            first, second = (operand, self) if swapped else (self, operand)
            if min(len(first.sizes), len(second.sizes)) < 2 or first.sizes[-1] != second.sizes[-2]:
                message = f"{first!r} @ {second!r}: the last size of the first is not the last but one of the second"
                raise ValueError(message)
            batch = _common(first, second, first.sizes[:-2], second.sizes[:-2])
            one, other = (each.broadcast_to(batch + each.sizes[-2:]) for each in (first, second))
            return self.graph.gemm(one, other)

    def __add__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_add)

    def __radd__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_add, swapped=True)

    def __sub__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_subtract)

    def __rsub__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_subtract, swapped=True)

    def __mul__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_multiply)

    def __rmul__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_multiply, swapped=True)

    def __truediv__(self, other: Any) -> GraphTensor:
        return self._divided(other)

    def __rtruediv__(self, other: Any) -> GraphTensor:
        return self._divided(other, swapped=True)

    def __mod__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_modulus_floor)

    def __rmod__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_modulus_floor, swapped=True)

    def __pow__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_pow)

    def __rpow__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_pow, swapped=True)

    def __matmul__(self, other: Any) -> GraphTensor:
        return self._product(other)

    def __rmatmul__(self, other: Any) -> GraphTensor:
        return self._product(other, swapped=True)

    def __neg__(self) -> GraphTensor:
        return self.graph.element_wise_negate(self)

    def __abs__(self) -> GraphTensor:
        return self.graph.element_wise_abs(self)

    def __lt__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_logical_less_than)

    def __le__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_logical_less_than_or_equal)

    def __gt__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_logical_greater_than)

    def __ge__(self, other: Any) -> GraphTensor:
        return self._with(other, self.graph.element_wise_logical_greater_than_or_equal)

    def __eq__(self, other: Any) -> GraphTensor:  # type: ignore[override]  # as in NumPy
        return self._with(other, self.graph.element_wise_logical_equals)

    def __ne__(self, other: Any) -> GraphTensor:  # type: ignore[override]  # as in NumPy
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else self.graph.element_wise_logical_not(equal)

    __hash__ = object.__hash__


_INSTEAD = "operators such as +, @ and < and the methods of its graph add nodes"


def desc_of(data_type: object, sizes: object, strides: object = None) -> BufferTensorDesc:
    """Returns the desc of a tensor.

    Raises:
        ContractViolation: there is no such data type, or the sizes and strides are not those of a tensor.
    """
    report = Report()
    given = {"DataType": data_type_name(data_type), "Sizes": _listed(sizes)}
    if strides is not None:
        given["Strides"] = _listed(strides)
    found = read_tensor(given, "", report, output=False)
    if found is None or report.violations:
        raise ContractViolation(report.violations)
    return found.desc


def _listed(given: object) -> object:
    return list(given) if isinstance(given, Iterable) else given


def _integers(given: Iterable[SupportsIndex | Iterable[SupportsIndex]]) -> list[int]:
    """Returns the integers of variable arguments, which may also be passed as a single iterable."""
    listed = [*given]
    if len(listed) == 1 and isinstance(listed[0], Iterable):
        listed = [*listed[0]]
    return [index(each) for each in listed]  # type: ignore[arg-type]  # index refuses what is no integer


def _is_contiguous(desc: BufferTensorDesc) -> bool:
    return desc.element_strides == packed_strides(desc.sizes)


def _common(first: GraphTensor, second: GraphTensor, *sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the sizes that two tensors are broadcast to."""
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        message = f"{first!r} and {second!r} cannot be broadcast: from the last dimension on, sizes are equal or 1"
        raise ValueError(message) from None


class _Placeholder(np.ndarray[Any, Any]):
    """A one-element placeholder that refers to the tensor it stands for."""

    tensor: GraphTensor


def _stand_in(tensor: GraphTensor, desc: BufferTensorDesc) -> Array:
    placeholder = _Placeholder((), desc.data_type.dtype)
    placeholder.fill(0)
    placeholder.tensor = tensor
    return np.broadcast_to(placeholder, desc.sizes)


def graph_tensor_of(array: Array) -> GraphTensor | None:
    """Returns the tensor that an array is a placeholder of, or None."""
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, _Placeholder):
        base = base.base
    return base.tensor if isinstance(base, _Placeholder) else None
