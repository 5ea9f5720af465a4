"""A kernel compiler that crashes on every kernel."""

from __future__ import annotations

import os

input()
os._exit(3)
