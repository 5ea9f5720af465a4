"""One spatial dimension of a pooling operator, with closed-form counts of its windows and their elements."""

from __future__ import annotations

from dataclasses import dataclass

_WRAPS = 2**32


@dataclass(frozen=True, slots=True)
class Dimension:
    """One spatial dimension: window ``o`` covers the positions ``o*stride - start + k*dilation``, k < window."""

    size: int
    stride: int
    window: int
    start: int
    end: int
    dilation: int

    @property
    def padded(self) -> int:
        return self.size + self.start + self.end

    @property
    def dilated_window(self) -> int:
        return 1 + (self.window - 1) * self.dilation

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The floor size and, if different, the ceiling size; less than 1 if there is no window."""
        room = self.padded - self.dilated_window
        if not self.stride:
            return (0,)
        return tuple(dict.fromkeys((room // self.stride + 1, -(-room // self.stride) + 1)))

    @property
    def gradient_size(self) -> int:
        """The floor size, but at least 1, as DirectML computes it for gradients: in 32-bit unsigned integers."""
        room = self.padded % _WRAPS - self.dilated_window % _WRAPS
        return max(room // self.stride + 1, 1) if self.stride else 0

    def elements_visited(self, count: int) -> int:
        """Returns the total number of elements in the first ``count`` windows, not counting padding."""
        return self._visited_below(count, self.start + self.size) - self._visited_below(count, self.start)

    def _visited_below(self, count: int, bound: int) -> int:
        """Returns the total number of positions of the first ``count`` windows below a bound in the padded input."""
        reached = _count_below(count, self.stride, bound)
        whole = _count_below(count, self.stride, bound - (self.dilated_window - 1))
        # ``last`` is the distance from the start of the last window that reaches below the bound to the position before
        # it; for the window before that it is larger by the stride, and so on.
        last = bound - 1 - (reached - 1) * self.stride
        cut = reached - whole
        return whole * self.window + cut + _floor_sum(cut, self.dilation, self.stride, last)

    def windows_with_element(self, count: int) -> int:
        """Returns how many of the first ``count`` windows contain an element of the input.

        A window that starts inside the input does. One that starts in the padding first hits the input at position
        ``start mod dilation``, if it is long enough.
        """
        inside = _count_below(count, self.stride, self.start + self.size) - _count_below(count, self.stride, self.start)
        before = _count_below(count, self.stride, self.start)
        too_short = _count_below(before, self.stride, self.start - (self.dilated_window - 1))
        reach = _count_residues(before, self.stride, -self.start, self.dilation, self.size)
        reach -= _count_residues(too_short, self.stride, -self.start, self.dilation, self.size)
        return inside + reach


def _count_below(count: int, stride: int, bound: int) -> int:
    """Returns how many of the first ``count`` multiples of ``stride``, from 0, are below a bound."""
    return min(count, max(0, -(-bound // stride)))


def _count_residues(count: int, stride: int, offset: int, modulus: int, bound: int) -> int:
    """Returns the number of i in ``range(count)`` with ``(i*stride + offset) mod modulus < bound``."""
    if bound >= modulus:
        return count
    upper = _floor_sum(count, modulus, stride, offset % modulus + modulus)
    return upper - _floor_sum(count, modulus, stride, offset % modulus + modulus - bound)


def _floor_sum(count: int, modulus: int, step: int, offset: int) -> int:
    """Returns the sum of ``(step*i + offset) // modulus`` for i in ``range(count)``, in logarithmic time."""
    total = 0
    while count > 0:
        total += (count - 1) * count // 2 * (step // modulus) + count * (offset // modulus)
        step, offset = step % modulus, offset % modulus
        top = step * count + offset
        if top < modulus:
            break
        count, offset = divmod(top, modulus)
        modulus, step = step, modulus
    return total
