"""Reductions as methods: one for each function, and the positions of extremes."""

from __future__ import annotations

from typing import Generic, Unpack

from ..tensor import DataType
from . import calls
from .arrays import ArrayLike, DTypeLike
from .calls import Axes, Direction, Function, IndexType
from .keywords import explains_keywords
from .options import CallOptions
from .typed import DeclaredMethods, R


class Reductions(DeclaredMethods[R], Generic[R]):
    """The methods of ARGMAX, ARGMIN and REDUCE, and one for each function of the latter.

    Axes are one or more integers, counted from 0.
    """

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

        >>> client.argmax(x, axes=1).output

        Args:
            x: a tensor of FLOAT32, FLOAT16, INT32, UINT32, INT16, UINT16, INT8 or UINT8, from 4_1 on INT64 or
                UINT64, of rank 1 to 8.
            axes: the axes to reduce; they keep size 1.
            direction: on ties, INCREASING takes the first element and DECREASING the last.
            output_type: the data type of the positions.
            options: see CallOptions.

        Returns:
            OutputTensor: a tensor of INT64, UINT64, INT32 or UINT32, of rank 1 to 8.

        Since feature level 3_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_argmax_operator_desc
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
        """Returns the position of the least element along the axes, in row-major order over them. NaN is skipped.

        >>> client.argmin(x, axes=1).output

        Args:
            x: a tensor of FLOAT32, FLOAT16, INT32, UINT32, INT16, UINT16, INT8 or UINT8, from 4_1 on INT64 or
                UINT64, of rank 1 to 8.
            axes: the axes to reduce; they keep size 1.
            direction: on ties, INCREASING takes the first element and DECREASING the last.
            output_type: the data type of the positions.
            options: see CallOptions.

        Returns:
            OutputTensor: a tensor of INT64, UINT64, INT32 or UINT32, of rank 1 to 8.

        Since feature level 3_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_argmin_operator_desc
        """
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
        """Reduces the elements along the axes with a function; each also has a method of its own.

        >>> client.reduce(x, "SUM", axes=1).output

        Args:
            x: a tensor of the data types that the method of the function lists.
            function: a member of DML_REDUCE_FUNCTION.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            output_type: the data type of the output, for ARGMAX and ARGMIN; the other functions keep that of x.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._run(calls.reduce(x, function, axes, output_type), options)

    def _reduce(self, x: ArrayLike, function: Function, axes: Axes, options: CallOptions) -> R:
        return self._run(calls.reduce(x, function, axes, None), options)

    @explains_keywords
    def sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum along the axes: correctly rounded for floats, wrapping around for integers.

        >>> client.sum(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 2_1 on INT32 or UINT32, from 5_0 on INT64 or UINT64, of rank
                4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "SUM", axes, options)

    @explains_keywords
    def average(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the mean along the axes, correctly rounded. Floats only.

        >>> client.average(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "AVERAGE", axes, options)

    @explains_keywords
    def l1(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum of absolute values along the axes.

        >>> client.l1(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 5_0 on INT64, UINT64, INT32 or UINT32, of rank 4, from 3_0
                on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "L1", axes, options)

    @explains_keywords
    def l2(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the square root of the sum of squares along the axes, correctly rounded. Floats only.

        >>> client.l2(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "L2", axes, options)

    @explains_keywords
    def log_sum(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the natural logarithm of the sum along the axes. Floats only.

        >>> client.log_sum(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "LOG_SUM", axes, options)

    @explains_keywords
    def log_sum_exp(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the natural logarithm of the sum of exponentials along the axes, without overflow. Floats only.

        >>> client.log_sum_exp(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "LOG_SUM_EXP", axes, options)

    @explains_keywords
    def max(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the greatest element along the axes. NaN is skipped.

        >>> client.max(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 2_1 on INT32 or UINT32, from 3_0 on INT16, UINT16, INT8 or
                UINT8, from 5_0 on INT64 or UINT64, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "MAX", axes, options)

    @explains_keywords
    def min(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the least element along the axes. NaN is skipped.

        >>> client.min(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 2_1 on INT32 or UINT32, from 3_0 on INT16, UINT16, INT8 or
                UINT8, from 5_0 on INT64 or UINT64, of rank 4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "MIN", axes, options)

    @explains_keywords
    def multiply(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the product along the axes: correctly rounded for floats, wrapping around for integers.

        >>> client.multiply(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 2_1 on INT32 or UINT32, from 5_0 on INT64 or UINT64, of rank
                4, from 3_0 on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "MULTIPLY", axes, options)

    @explains_keywords
    def sum_square(self, x: ArrayLike, axes: Axes, **options: Unpack[CallOptions]) -> R:
        """Returns the sum of squares along the axes.

        >>> client.sum_square(x, axes=1).output

        Args:
            x: a tensor of FLOAT32 or FLOAT16, from 5_0 on INT64, UINT64, INT32 or UINT32, of rank 4, from 3_0
                on 1 to 8.
            axes: the axes to reduce; they keep size 1. If empty, the function is applied to each element on its
                own.
            options: see CallOptions.

        Returns:
            OutputTensor: the results, of the data type and rank of x.

        Since feature level 1_0:
        https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_reduce_operator_desc
        """
        return self._reduce(x, "SUM_SQUARE", axes, options)
