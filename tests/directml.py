"""What DirectML's header and pages say of its operators and enums, taken from them apart from the schema."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FACTS = json.loads(gzip.decompress((Path(__file__).parent / "data" / "directml.json.gz").read_bytes()))

OPERATORS: dict[str, dict[str, Any]] = {facts["operator"]: facts for facts in FACTS["operators"]}
"""For each operator its struct, members, constraints, support rows and fused activations."""

ENUMS: dict[str, dict[str, Any]] = FACTS["enums"]["enums"]
