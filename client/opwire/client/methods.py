"""The operators as methods, written once for every kind of client."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from ..tensor import DataType
from ..wire import Call
from . import calls
from .arrays import ArrayLike
from .calls import AnyGraph, Axes, Direction, Function, IndexType, Inputs, PoolingOperator
from .operands import explains_keywords, no_attribute
from .options import CallOptions
from .typed import DeclaredMethods, R

P = TypeVar("P")
"""What a pooling that was asked for indices returns: a PoolingResult, or an awaitable of one."""


class OperatorMethods(DeclaredMethods[R], Generic[R, P]):
    """One method for each operator: those that suit Python, and, of ``DeclaredMethods``, those that mirror DirectML.

    Tensors are numpy arrays or anything that converts itself to one (``__array__``, ``__dlpack__``), of any layout and
    byte order. Their data types are never changed, so lists, which have none, are taken by ``execute`` alone. Axes are
    integers from 0, one or several. All methods take the options of ``CallOptions`` as further keywords.

    The methods raise TypeError or ValueError for arguments of which no request can be made, and else what the server
    answers: ContractViolation where the operator contract is broken, and the other errors of ``opwire.errors``.
    """

    if not TYPE_CHECKING:  # so that a name that is not there is a mistake for type checkers too

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_attribute(self, name), name=name)

    @abstractmethod
    def _run_pooling(self, call: Call, options: CallOptions) -> P:
        """Runs a pooling that asks for indices."""

    @explains_keywords
    def execute(
        self,
        operator: AnyGraph,
        inputs: Inputs,
        **options: Unpack[CallOptions],
    ) -> R:
        """Runs any operator or graph.

        Args:
            operator: ``{"type": ..., "desc": {...}}`` as DxDispatch writes it; or an ``opwire.Graph``, a graph as JSON,
                or the name of a registered one.
            inputs: the tensors by name, or the tensor of an operator that has one. Each is an array of the shape
                ``Sizes``; or the whole buffer in one dimension, as elements, as UINT8 or as bytes, where a desc with
                strides has its gaps; or lists of numbers, which take the data type of the desc. An array of tensors
                is a list of these.
            options: see CallOptions.
        """
        return self._run(calls.execute(operator, inputs), options)

    @explains_keywords
    def argmax(
        self,
        x: ArrayLike,
        axes: Axes,
        *,
        direction: Direction = "INCREASING",
        output_type: IndexType = "UINT32",
        **options: Unpack[CallOptions],
    ) -> R:
        """The position of the greatest element along the axes, row-major over them; NaN is skipped.

        Args:
            x: the tensor.
            axes: that are reduced; they keep the size 1.
            direction: INCREASING takes the first of equal elements, DECREASING the last.
            output_type: of the positions.
            options: see CallOptions.
        """
        return self._run(calls.argreduce("ARGMAX", x, axes, direction, output_type), options)

    @explains_keywords
    def argmin(
        self,
        x: ArrayLike,
        axes: Axes,
        *,
        direction: Direction = "INCREASING",
        output_type: IndexType = "UINT32",
        **options: Unpack[CallOptions],
    ) -> R:
        """The position of the least element along the axes; the arguments are those of ``argmax``."""
        return self._run(calls.argreduce("ARGMIN", x, axes, direction, output_type), options)

    @explains_keywords
    def reduce(
        self,
        x: ArrayLike,
        function: Function,
        axes: Axes,
        *,
        output_type: DataType | str | None = None,
        **options: Unpack[CallOptions],
    ) -> R:
        """A function of the elements along the axes.

        Args:
            x: the tensor.
            function: of ``DML_REDUCE_FUNCTION``.
            axes: that are reduced; they keep the size 1. Without any, the function is applied to each element.
            output_type: for the functions ARGMAX and ARGMIN; all others keep the data type of ``x``.
            options: see CallOptions.
        """
        return self._run(calls.reduce(x, function, axes, output_type), options)

    def _reduce(self, x: ArrayLike, function: Function, axes: Axes, options: CallOptions) -> R:
        return self._run(calls.reduce(x, function, axes, None), options)

    @explains_keywords
    def sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The sum along the axes: of floats correctly rounded, of integers wrapped."""
        return self._reduce(x, "SUM", axes, options)

    @explains_keywords
    def average(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The mean along the axes, correctly rounded; of floats alone."""
        return self._reduce(x, "AVERAGE", axes, options)

    @explains_keywords
    def l1(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The sum of absolute values along the axes."""
        return self._reduce(x, "L1", axes, options)

    @explains_keywords
    def l2(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The square root of the sum of squares along the axes, correctly rounded; of floats alone."""
        return self._reduce(x, "L2", axes, options)

    @explains_keywords
    def log_sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The natural logarithm of the sum along the axes; of floats alone."""
        return self._reduce(x, "LOG_SUM", axes, options)

    @explains_keywords
    def log_sum_exp(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The natural logarithm of the sum of exponentials along the axes, without overflow; of floats alone."""
        return self._reduce(x, "LOG_SUM_EXP", axes, options)

    @explains_keywords
    def max(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The greatest element along the axes; NaN is skipped."""
        return self._reduce(x, "MAX", axes, options)

    @explains_keywords
    def min(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The least element along the axes; NaN is skipped."""
        return self._reduce(x, "MIN", axes, options)

    @explains_keywords
    def multiply(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The product along the axes: of floats correctly rounded, of integers wrapped."""
        return self._reduce(x, "MULTIPLY", axes, options)

    @explains_keywords
    def sum_square(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """The sum of squares along the axes."""
        return self._reduce(x, "SUM_SQUARE", axes, options)

    @overload
    def max_pooling(
        self,
        x: ArrayLike,
        window: Axes,
        *,
        strides: Axes | None = None,
        start_padding: Axes | None = None,
        end_padding: Axes | None = None,
        dilations: Axes | None = None,
        indices: Literal[False] = False,
        index_type: IndexType = "UINT32",
        ceil: bool = False,
        operator: PoolingOperator | None = None,
        **options: Unpack[CallOptions],
    ) -> R: ...

    @overload
    def max_pooling(
        self,
        x: ArrayLike,
        window: Axes,
        *,
        strides: Axes | None = None,
        start_padding: Axes | None = None,
        end_padding: Axes | None = None,
        dilations: Axes | None = None,
        indices: Literal[True],
        index_type: IndexType = "UINT32",
        ceil: bool = False,
        operator: PoolingOperator | None = None,
        **options: Unpack[CallOptions],
    ) -> P: ...

    @overload
    def max_pooling(
        self,
        x: ArrayLike,
        window: Axes,
        *,
        strides: Axes | None = None,
        start_padding: Axes | None = None,
        end_padding: Axes | None = None,
        dilations: Axes | None = None,
        indices: bool,
        index_type: IndexType = "UINT32",
        ceil: bool = False,
        operator: PoolingOperator | None = None,
        **options: Unpack[CallOptions],
    ) -> R | P: ...

    @explains_keywords
    def max_pooling(
        self,
        x: ArrayLike,
        window: Axes,
        *,
        strides: Axes | None = None,
        start_padding: Axes | None = None,
        end_padding: Axes | None = None,
        dilations: Axes | None = None,
        indices: bool = False,
        index_type: IndexType = "UINT32",
        ceil: bool = False,
        operator: PoolingOperator | None = None,
        **options: Unpack[CallOptions],
    ) -> R | P:
        """The greatest element of each window over the spatial dimensions, which are all but the first two.

        Args:
            x: the tensor, of rank 4 or 5: N, C and the spatial dimensions.
            window: its size. This and the following are one integer per spatial dimension, or one for all of them.
            strides: from window to window; left out, 1.
            start_padding: elements before the first; left out, 0. Padding never wins.
            end_padding: elements behind the last; left out, 0.
            dilations: from element to element of a window; left out, 1.
            indices: whether to return also the position of each greatest element (``PoolingResult.indices``),
                row-major in the whole of ``x``.
            index_type: of the positions.
            ceil: whether a last window that does not fit whole counts too.
            operator: MAX_POOLING, 1 or 2; left out, the oldest that can do what is asked.
            options: see CallOptions.
        """
        call = calls.max_pooling(
            x,
            window,
            strides=strides,
            start_padding=start_padding,
            end_padding=end_padding,
            dilations=dilations,
            index_type=index_type if indices else None,
            ceil=ceil,
            name=operator,
        )
        return self._run_pooling(call, options) if indices else self._run(call, options)
