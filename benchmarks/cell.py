"""A cell: an operator with its tensors and its equivalents in other libraries, from which every measurement starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from opwire.tensor import Array, DataType

Function = Callable[..., Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


class Library:
    """A library that is imported when a function of it is first called for, as it may not be installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, member: str) -> Any:
        found = getattr(import_module(self._name), member)
        setattr(self, member, found)  # from now on an attribute like those of the module
        return found


torch, functional = Library("torch"), Library("torch.nn.functional")
jnp, lax = Library("jax.numpy"), Library("jax.lax")


def named(path: str) -> Function | None:
    """Returns a function by its full name, such as ``torch.nn.functional.gelu``; None without a name."""
    library, _, name = path.rpartition(".")
    return (lambda *given, **options: getattr(Library(library), name)(*given, **options)) if path else None


_DRAWN = 1 << 22
"""Numbers that are drawn; larger tensors repeat them."""


def normal(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    count = int(np.prod(sizes))
    return np.resize(generator.standard_normal(min(count, _DRAWN), np.float32), count).reshape(sizes)


def positive(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    return np.abs(normal(generator, sizes)) + np.float32(0.01)


def hundreds(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """Draws numbers of up to some hundreds, for integers."""
    return 100 * normal(generator, sizes)


def below(first: int, last: int) -> Draw:
    """Returns what draws integers from ``first`` to ``last``, without the latter."""
    return lambda generator, sizes: generator.integers(first, last, sizes)


def shuffled(generator: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """Draws a permutation of the indices along the first axis, for each column."""
    return np.argsort(generator.random(sizes, np.float32), 0)


def always(value: float) -> Draw:
    return lambda _, sizes: np.full(sizes, value)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input.

    Attributes:
        sizes: its sizes.
        dtype: NumPy name of its data type.
        draw: draws its elements.
        order: its dimensions from outermost to innermost in memory; by default their natural order.
        repeated: axes along which one element repeats, with stride 0.
    """

    sizes: tuple[int, ...]
    dtype: str = "float32"
    draw: Draw = normal
    order: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()

    @property
    def inverse(self) -> tuple[int, ...]:
        """The permutation that makes the dimensions of ``memory`` those of the tensor."""
        return tuple(self.order.index(axis) for axis in range(len(self.sizes))) if self.order else ()

    def memory(self, seed: int = 0) -> Array:
        """Draws the elements in memory order; along repeated axes there is one."""
        stored = [1 if axis in self.repeated else size for axis, size in enumerate(self.sizes)]
        sizes = tuple(stored[axis] for axis in self.order or range(len(stored)))
        drawn = self.draw(np.random.default_rng(seed), sizes)
        info = np.iinfo(self.dtype) if np.dtype(self.dtype).kind in "iu" else None
        return (drawn if info is None else np.clip(drawn, info.min, info.max)).astype(self.dtype)

    def view(self, memory: Array) -> Array:
        """Returns the tensor in its memory."""
        return np.broadcast_to(memory.transpose(self.inverse) if self.order else memory, self.sizes)

    @property
    def desc(self) -> dict[str, Any]:
        found = {"DataType": DataType.of(np.dtype(self.dtype)).name, "Sizes": list(self.sizes)}
        if not self.order and not self.repeated:
            return found
        strides, step = [0] * len(self.sizes), 1
        for axis in reversed(self.order or range(len(self.sizes))):
            if axis not in self.repeated:
                strides[axis] = step
                step *= self.sizes[axis]
        return {**found, "Strides": strides}


@dataclass(frozen=True, slots=True)
class Onnx:
    """An operator of ONNX.

    Attributes:
        operator, attributes: the operator, of the default domain.
        constants: inputs that follow those of the cell, by name.
        takes: number of the cell's inputs that it takes; None for all.
        outputs: NumPy names of the data types of its outputs.
    """

    operator: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    takes: int | None = None
    outputs: Sequence[str] = ("float32",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """An operator and its peers.

    Attributes:
        group, name, type, layout, size: identify the cell; each may be empty.
        operator, inputs, fields: the request; members of a tensor array are named ``Name[0]``, ``Name[1]``.
        numpy, torch, jax: functions of the inputs, or None.
        onnx: the operator of ONNX, or None.
        writes: whether the functions of NumPy and PyTorch take the output as ``out``.
        is_by_element: whether element order is irrelevant, so that peers may keep the elements in memory order.
        is_chosen: whether peers may choose among equal elements, so that their results are not compared.
        moved: the fewest bytes that can be read and written; 0 for all inputs and outputs.
        is_movement: whether it is compared with a copy on the CPU, too.
    """

    group: str
    name: str
    operator: str
    inputs: Mapping[str, Tensor]
    fields: Mapping[str, Any] = field(default_factory=dict)
    type: str = ""
    layout: str = ""
    size: str = ""
    numpy: Function | None = None
    torch: Function | None = None
    jax: Function | None = None
    onnx: Onnx | None = None
    writes: bool = False
    is_by_element: bool = False
    is_chosen: bool = False
    moved: int = 0
    is_movement: bool = False

    @property
    def key(self) -> dict[str, str]:
        """What identifies it, as in results."""
        return {name: getattr(self, name) for name in ("group", "name", "type", "layout", "size")}

    @property
    def request(self) -> dict[str, Any]:
        """The operator as passed to ``check``."""
        desc: dict[str, Any] = dict(self.fields)
        for name, tensor in self.inputs.items():
            member, _, index = name.partition("[")
            if index:
                desc.setdefault(member, []).append(tensor.desc)
            else:
                desc[name] = tensor.desc
        return {"type": self.operator, "desc": desc}

    def __str__(self) -> str:
        return " ".join(filter(None, self.key.values()))
