"""The API keys of a server: read from a file, kept as digests, compared in constant time."""

from __future__ import annotations

import hmac
import os
import re
import stat
from hashlib import blake2b
from pathlib import Path

_LINE = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,64}):)?[ \t]*(?P<key>[A-Za-z0-9._~+/-]+=*)")
"""Keys consist of the characters of an RFC 6750 bearer token. None is a colon, so the first colon ends a name."""


class ApiKeys:
    """The API keys of a server and the names of their owners.

    Args:
        keys: owner name by key.
    """

    def __init__(self, keys: dict[str, str]) -> None:
        # Keyed digests have equal length, and the timing of comparing them reveals nothing about the keys.
        self._secret = os.urandom(32)
        self._names = [(self._digest(key.encode("ascii")), name) for key, name in keys.items()]

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """Reads keys from a file: one per line, optionally after ``name:``; empty lines and # comments are skipped.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a regular file, contains no key, or has an invalid line. The message does not quote
                the line.
        """
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{path}: not a regular file; the API keys file must be one")
        keys: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            found = _LINE.fullmatch(text)
            if found is None:
                raise ValueError(
                    f"{path}, line {number}: expected KEY or NAME:KEY; keys may use A-Z a-z 0-9 . _ ~ + / -"
                )
            keys[found["key"]] = found["name"] or f"line {number}"
        if not keys:
            raise ValueError(f"{path}: contains no API keys")
        return cls(keys)

    def __len__(self) -> int:
        return len(self._names)

    def owner(self, key: bytes) -> str | None:
        """Returns the name of a key's owner, or None if the key is invalid. Compares with all keys in constant time."""
        given = self._digest(key)
        owner = None
        for digest, name in self._names:
            if hmac.compare_digest(digest, given):
                owner = name
        return owner

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret, digest_size=32).digest()
