"""The operators as methods, shared by every kind of client."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from ..tensor import DataType
from ..wire import Call
from . import calls
from .arrays import ArrayLike, DTypeLike
from .calls import AnyGraph, Axes, Direction, Function, IndexType, Inputs, PoolingOperator
from .keywords import explains_keywords, no_attribute
from .options import CallOptions
from .typed import DeclaredMethods, R

P = TypeVar("P")
"""Return type of pooling with indices: a PoolingResult, or an awaitable of one."""


class OperatorMethods(DeclaredMethods[R], Generic[R, P]):
    """One method per operator: Pythonic ones here, and those of ``DeclaredMethods``, which mirror DirectML.

    Tensors are numpy arrays or objects that convert to one (``__array__``, ``__dlpack__``), with any memory layout and
    byte order; ``opwire.strided`` keeps the strides of one. Data types are never converted, so lists, which have none,
    are accepted by ``execute`` alone. A number beside arrays is a tensor of one element of their data type, repeated by
    strides of 0 where the operator takes equal sizes: ``client.add(x, 1)``. Axes are one or more integers, counted from
    0. Every method takes the options of ``CallOptions`` as additional keywords.
    ``relu`` is short for ``activation_relu`` and ``add`` for ``element_wise_add``; so are the others of both kinds, and
    some names of other libraries, such as ``conv`` and ``matmul``.

    The methods raise TypeError or ValueError for arguments that cannot be turned into a request, and otherwise the
    error that the server answers with: ContractViolation if the operator contract is violated, or another of
    ``opwire.errors``.
    """

    if not TYPE_CHECKING:  # so that a name that is not there is a mistake for type checkers too

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_attribute(self, name), name=name)

    @abstractmethod
    def _run_pooling(self, call: Call, options: CallOptions) -> P:
        """Runs a pooling that also returns indices."""

    @explains_keywords
    def execute(
        self,
        operator: AnyGraph,
        inputs: Inputs,
        **options: Unpack[CallOptions],
    ) -> R:
        """Runs any operator or graph.

        Args:
            operator: ``{"type": ..., "desc": {...}}`` as in DxDispatch, an ``opwire.Graph``, a graph as JSON, or the
                name of a registered graph.
            inputs: the tensors by name, or a single tensor for an operator with one input. Each is an array of shape
                ``Sizes``; or the whole buffer, including any gaps left by strides, as a one-dimensional array of
                elements or of UINT8, or as bytes; or lists of numbers, which take the data type of the desc. For an
                array of tensors, pass a list of these.
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
        """Returns the position of the greatest element along the axes, in row-major order over them. NaN is skipped.

        Args:
            x: the tensor.
            axes: the axes to reduce; they keep size 1.
            direction: on ties, INCREASING takes the first element and DECREASING the last.
            output_type: data type of the positions.
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
        """Returns the position of the least element along the axes. Takes the same arguments as ``argmax``."""
        return self._run(calls.argreduce("ARGMIN", x, axes, direction, output_type), options)

    @explains_keywords
    def reduce(
        self,
        x: ArrayLike,
        function: Function,
        axes: Axes,
        *,
        output_type: DataType | DTypeLike | str | None = None,
        **options: Unpack[CallOptions],
    ) -> R:
        """Reduces the elements along the axes with a function.

        Args:
            x: the tensor.
            function: a member of ``DML_REDUCE_FUNCTION``.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its own.
            output_type: data type of the output, for ARGMAX and ARGMIN; the other functions keep that of ``x``.
            options: see CallOptions.
        """
        return self._run(calls.reduce(x, function, axes, output_type), options)

    def _reduce(self, x: ArrayLike, function: Function, axes: Axes, options: CallOptions) -> R:
        return self._run(calls.reduce(x, function, axes, None), options)

    @explains_keywords
    def sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum along the axes: correctly rounded for floats, wrapping around for integers."""
        return self._reduce(x, "SUM", axes, options)

    @explains_keywords
    def average(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the mean along the axes, correctly rounded. Floats only."""
        return self._reduce(x, "AVERAGE", axes, options)

    @explains_keywords
    def l1(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum of absolute values along the axes."""
        return self._reduce(x, "L1", axes, options)

    @explains_keywords
    def l2(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the square root of the sum of squares along the axes, correctly rounded. Floats only."""
        return self._reduce(x, "L2", axes, options)

    @explains_keywords
    def log_sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the natural logarithm of the sum along the axes. Floats only."""
        return self._reduce(x, "LOG_SUM", axes, options)

    @explains_keywords
    def log_sum_exp(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the natural logarithm of the sum of exponentials along the axes, without overflow. Floats only."""
        return self._reduce(x, "LOG_SUM_EXP", axes, options)

    @explains_keywords
    def max(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the greatest element along the axes. NaN is skipped."""
        return self._reduce(x, "MAX", axes, options)

    @explains_keywords
    def min(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the least element along the axes. NaN is skipped."""
        return self._reduce(x, "MIN", axes, options)

    @explains_keywords
    def multiply(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the product along the axes: correctly rounded for floats, wrapping around for integers."""
        return self._reduce(x, "MULTIPLY", axes, options)

    @explains_keywords
    def sum_square(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum of squares along the axes."""
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
        """Returns the greatest element of each window over the spatial dimensions (all but the first two).

        The window and the arguments that follow it are one integer per spatial dimension, or one for all of them.

        Args:
            x: the tensor, of rank 4 or 5: N, C and the spatial dimensions.
            window: size of the window.
            strides: steps from one window to the next. Defaults to 1.
            start_padding: elements before the first. Defaults to 0. A padding element is never the greatest.
            end_padding: elements after the last. Defaults to 0.
            dilations: steps from one element of a window to the next. Defaults to 1.
            indices: whether to also return the position of each greatest element (``PoolingResult.indices``), in
                row-major order over the whole of ``x``.
            index_type: data type of the positions.
            ceil: whether to include a last window that fits only in part.
            operator: MAX_POOLING, MAX_POOLING1 or MAX_POOLING2. Defaults to the oldest one with the requested features.
            options: see CallOptions.
        """
        with_indices = calls.checked_flag(indices, "indices")
        call = calls.max_pooling(
            x,
            window,
            strides=strides,
            start_padding=start_padding,
            end_padding=end_padding,
            dilations=dilations,
            index_type=index_type if with_indices else None,
            ceil=calls.checked_flag(ceil, "ceil"),
            name=operator,
        )
        return self._run_pooling(call, options) if with_indices else self._run(call, options)
