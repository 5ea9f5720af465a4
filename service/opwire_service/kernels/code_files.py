"""Files of machine code, in folders where other users may be able to write.

Machine code runs with all rights of the process, and unpickling it may run other code before. So only files that nobody
else can have written are read.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def read_own(path: Path) -> bytes:
    """Reads a file.

    Raises:
        OSError: it cannot be read, or another user may have written it.
    """
    with path.open("rb") as file:
        if not is_own(os.fstat(file.fileno())):
            raise PermissionError(f"{path} may have been written by another user")
        return file.read()


def write_own(path: Path, data: bytes) -> None:
    """Writes a file atomically, as other processes may read it at any time. The folder is created if needed.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    written.unlink(missing_ok=True)
    try:
        # Exclusively, so that it is no link that somebody has put there.
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o644), "wb") as file:
            file.write(data)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def is_own(found: os.stat_result) -> bool:
    """Whether only this user, the administrator or the owner of this program can have written a file."""
    if sys.platform == "win32":  # which has neither owners nor modes here
        return True
    owners = {os.geteuid(), 0, Path(__file__).stat().st_uid}
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners and not found.st_mode & _OTHERS_WRITE


_BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows translates line ends without it."""
