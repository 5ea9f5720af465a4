"""The operators that some device runs. Each runs on the reference device, which therefore says which they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opwire.operator import Operator
from opwire.operators import OPERATORS

from .reference import KERNELS

EXECUTABLE: Mapping[str, Operator[Any]] = {name: OPERATORS[name] for name in KERNELS}
"""The executable operators by name."""
