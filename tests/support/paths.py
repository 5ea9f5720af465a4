"""The project's folders that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples"
MODELS = DATA / "dxdispatch"
"""DxDispatch models."""
