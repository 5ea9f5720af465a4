"""Facts about operators and enums from DirectML's header and documentation, independent of the schema."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FACTS = json.loads(gzip.decompress((Path(__file__).parent.parent / "data" / "directml.json.gz").read_bytes()))

OPERATORS: dict[str, dict[str, Any]] = {facts["operator"]: facts for facts in FACTS["operators"]}
"""The struct, members, constraints, support rows and fused activations of each operator."""

ENUMS: dict[str, dict[str, Any]] = FACTS["enums"]["enums"]
