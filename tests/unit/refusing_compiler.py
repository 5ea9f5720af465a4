"""A compiler of kernels that takes a while to refuse each, and notes its name."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

for line in sys.stdin:
    with Path(os.environ["OPWIRE_TEST_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(line)
    time.sleep(0.3)
    sys.stdout.write("no\n")
    sys.stdout.flush()
