"""A compiler of kernels that dies of each."""

from __future__ import annotations

import os

input()
os._exit(3)
