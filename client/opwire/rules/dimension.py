"""One spatial dimension of a pooling: its windows, and how many elements they have, counted without a loop over all."""

from __future__ import annotations

from dataclasses import dataclass


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
        """The floor size and, where it differs, the ceiling size."""
        room = self.padded - self.dilated_window
        return tuple(dict.fromkeys((room // self.stride + 1, -(-room // self.stride) + 1)))

    def elements_visited(self, count: int) -> int:
        """How many elements the first ``count`` windows have together, without the padding."""
        return self._visited_below(count, self.start + self.size) - self._visited_below(count, self.start)

    def _visited_below(self, count: int, bound: int) -> int:
        """How many positions below a bound, of the padded input, the first ``count`` windows have together."""
        reached = _count_below(count, self.stride, bound)
        whole = _count_below(count, self.stride, bound - (self.dilated_window - 1))
        # The last window that reaches below the bound has a positions there, the one before it stride more, and so on.
        last = bound - 1 - (reached - 1) * self.stride
        cut = reached - whole
        return whole * self.window + cut + _floor_sum(cut, self.dilation, self.stride, last)

    def windows_with_element(self, count: int) -> int:
        """How many of the first ``count`` windows reach an element of the input.

        A window that begins inside does. One that begins in the padding reaches position ``begin mod dilation`` first,
        provided that it is long enough.
        """
        inside = _count_below(count, self.stride, self.start + self.size) - _count_below(count, self.stride, self.start)
        before = _count_below(count, self.stride, self.start)
        too_short = _count_below(before, self.stride, self.start - (self.dilated_window - 1))
        reach = _count_residues(before, self.stride, -self.start, self.dilation, self.size)
        reach -= _count_residues(too_short, self.stride, -self.start, self.dilation, self.size)
        return inside + reach


def _count_below(count: int, stride: int, bound: int) -> int:
    """How many of 0, stride, 2*stride, ... (``count`` of them) are below a bound."""
    return min(count, max(0, -(-bound // stride)))


def _count_residues(count: int, stride: int, offset: int, modulus: int, bound: int) -> int:
    """How many i below ``count`` have ``(i*stride + offset) mod modulus < bound``."""
    if bound >= modulus:
        return count
    upper = _floor_sum(count, modulus, stride, offset % modulus + modulus)
    return upper - _floor_sum(count, modulus, stride, offset % modulus + modulus - bound)


def _floor_sum(count: int, modulus: int, step: int, offset: int) -> int:
    """The sum of ``(step*i + offset) // modulus`` for i below ``count``, in logarithmic time."""
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
