"""Draws inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from ..tensor import Array
from .subjects import TensorType


class Distribution(StrEnum):
    """How inputs are drawn."""

    NORMAL = "normal"
    """Floats of mean 0 and deviation 1."""
    UNIFORM = "uniform"
    """Floats from 0 to 1."""
    ADVERSARIAL = "adversarial"
    """Ties, sums that cancel, denormals, huge numbers, zeros of both signs, infinities; NaN is left out."""


def draw(
    types: Mapping[str, TensorType], seed: int = 0, distribution: Distribution | str = Distribution.NORMAL
) -> dict[str, Array]:
    """Draws arrays. Integers are from 0 to 1, which are valid as indices, masks and lengths of most models.

    Args:
        types: the types of the arrays by name.
        seed: the seed; the same seed draws the same arrays.
        distribution: how floats are drawn.
    """
    generator = np.random.default_rng(seed)
    kind = Distribution(distribution)
    return {name: _array(each, generator, kind) for name, each in types.items()}


def _array(given: TensorType, generator: np.random.Generator, kind: Distribution) -> Array:
    if given.dtype.kind != "f":
        return generator.integers(0, 2, given.sizes).astype(given.dtype)
    if kind is Distribution.ADVERSARIAL:
        return _adversarial(given, generator)
    values = generator.random(given.sizes) if kind is Distribution.UNIFORM else generator.standard_normal(given.sizes)
    return values.astype(given.dtype)


def _adversarial(given: TensorType, generator: np.random.Generator) -> Array:
    """Draws ordinary numbers, among them a hard one in eight."""
    values: Array = generator.standard_normal(given.sizes).astype(given.dtype)
    limits = np.finfo(given.dtype)
    tiny, huge = limits.smallest_subnormal, np.sqrt(limits.max)
    hard = np.array([0.0, -0.0, 0.5, 1.5, -2.5, tiny, -tiny, limits.tiny, huge, -huge, np.inf, -np.inf], given.dtype)
    is_hard = generator.random(given.sizes) < 1 / 8
    values[is_hard] = generator.choice(hard, int(is_hard.sum()))
    flat = values.reshape(-1)
    half = flat.size // 2
    cancels = generator.random(half) < 1 / 8
    flat[half : 2 * half][cancels] = -flat[:half][cancels]
    return values
