"""Generates the counts of ONNX's node tests in the documentation."""

from __future__ import annotations

import json
from pathlib import Path

_COUNTS = Path(__file__).parents[1] / "tests" / "data" / "onnx-nodes.json"


def onnx_nodes() -> str:
    """Returns how many node tests become DirectML operators, by operator."""
    counts: dict[str, dict[str, int]] = json.loads(_COUNTS.read_text(encoding="utf-8"))
    total = sum(sum(each.values()) for each in counts.values())
    lowered = sum(each.get("lowered", 0) for each in counts.values())
    wrong = sum(each.get("wrong", 0) for each in counts.values())
    whole: list[str] = []
    partly: list[str] = []
    never: list[str] = []
    for name, each in counts.items():
        run, all_ = each.get("lowered", 0) + each.get("wrong", 0), sum(each.values())
        (whole if run == all_ else partly if run else never).append(f"{name} {run}/{all_}" if run else name)
    return "\n\n".join(
        [
            f"Of {total} tests, {lowered} run as DirectML operators alone and give the expected results; {wrong} give"
            f" others, for reasons that the tests name; {total - lowered - wrong} have nodes that stay on the CPU.",
            f"**All tests run as DirectML operators**: {', '.join(whole)}.",
            f"**Some do**: {', '.join(partly)}.",
            f"**None does**: {', '.join(never)}.",
        ]
    )


REGIONS = {"onnx-nodes": onnx_nodes}
