"""The API keys of a server: read from a file, kept as digests, compared in constant time."""

from __future__ import annotations

import hmac
import os
import re
import stat
from hashlib import blake2b
from pathlib import Path

_LINE = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,64}):)?[ \t]*(?P<key>[A-Za-z0-9._~+/-]+=*)")
"""A key has the characters that RFC 6750 gives a bearer token, so the first colon ends a name."""


class ApiKeys:
    """The keys of a server, each with the name of its owner.

    Args:
        keys: name by key.
    """

    def __init__(self, keys: dict[str, str]) -> None:
        # Digests under a secret of this process have one length, and tell nothing of a key that is compared with them.
        self._secret = os.urandom(32)
        self._names = [(self._digest(key.encode("ascii")), name) for key, name in keys.items()]

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """The keys of a file: one a line, after ``name:`` or bare; empty lines and what follows # are skipped.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not a regular file, holds no key, or a line that is none. The message repeats no part of a
                line.
        """
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{path}: not a regular file; API keys are read from one")
        keys: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            found = _LINE.fullmatch(text)
            if found is None:
                raise ValueError(f"{path}, line {number}: not a key, nor name:key; a key is of A-Z a-z 0-9 . _ ~ + / -")
            keys[found["key"]] = found["name"] or f"line {number}"
        if not keys:
            raise ValueError(f"{path}: it holds no API key")
        return cls(keys)

    def owner(self, key: bytes) -> str | None:
        """The name of a key's owner; None if there is no such key. Every key is compared, whichever matches."""
        given = self._digest(key)
        owner = None
        for digest, name in self._names:
            if hmac.compare_digest(digest, given):
                owner = name
        return owner

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret, digest_size=32).digest()
