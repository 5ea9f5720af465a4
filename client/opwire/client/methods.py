"""The operators as methods, shared by every kind of client."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from ..wire import Call
from . import calls
from .arrays import ArrayLike
from .calls import AnyGraph, Axes, IndexType, Inputs, PoolingOperator
from .keywords import explains_keywords, no_attribute
from .options import CallOptions
from .reductions import Reductions
from .typed import R

P = TypeVar("P")
"""Return type of pooling with indices: a PoolingResult, or an awaitable of one."""


class OperatorMethods(Reductions[R], Generic[R, P]):
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
    def execute(self, operator: AnyGraph, inputs: Inputs, **options: Unpack[CallOptions]) -> R:
        """Runs any operator or graph.

        >>> desc = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "Function": "MAX", "Axes": [1]}
        >>> client.execute({"type": "REDUCE", "desc": desc}, x).output

        Args:
            operator: ``{"type": ..., "desc": {...}}`` as in DxDispatch, an ``opwire.Graph``, a graph as JSON, or the
                name of a registered graph.
            inputs: the tensors by name, or a single tensor for an operator with one input. Each is an array of shape
                ``Sizes``; or the whole buffer, including any gaps left by strides, as a one-dimensional array of
                elements or of UINT8, or as bytes; or lists of numbers, which take the data type of the desc. For an
                array of tensors, pass a list of these.
            options: see CallOptions.

        Returns:
            The outputs of the operator, or of the graph, by name.
        """
        return self._run(calls.execute(operator, inputs), options)

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

        >>> client.max_pooling(image, 2, strides=2).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 3_0 on INT8 or UINT8, from 5_0 on INT64, UINT64, INT32,
                UINT32, INT16 or UINT16, of rank 4 to 5: N, C and the spatial dimensions.
            window: the size of the window.
            strides: the steps from one window to the next. Defaults to 1.
            start_padding: elements before the first. Defaults to 0. A padding element is never the greatest.
            end_padding: elements after the last. Defaults to 0.
            dilations: the steps from one element of a window to the next. Defaults to 1; from 2_1 on.
            indices: whether to also return the position of each greatest element, in row-major order over the
                whole of x; from 2_0 on.
            index_type: the data type of the positions.
            ceil: whether to include a last window that fits only in part.
            operator: MAX_POOLING, MAX_POOLING1 or MAX_POOLING2. Defaults to the oldest one with the requested
                features.
            options: see CallOptions.

        Returns:
            OutputTensor: a tensor of the data type and rank of x.
            OutputIndicesTensor: optional, a tensor of UINT32, from 5_0 on UINT64, of rank 4 to 5
                (``PoolingResult.indices``).

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_max_pooling_operator_desc
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

    max_pool = max_pooling
