"""The API keys of a server: read from a file, kept as digests, compared in constant time."""

from __future__ import annotations

import hmac
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

_NAME, _KEY, _HASH = r"[A-Za-z0-9._-]{1,64}", r"[A-Za-z0-9._~+/-]+=*", r"\$sha256\$(?P<digest>[0-9a-f]{64})"

_LINE = re.compile(rf"(?:(?P<name>{_NAME}):)?[ \t]*(?:(?P<key>{_KEY})|{_HASH})")
"""Keys consist of the characters of an RFC 6750 bearer token. None is a colon, so the first colon ends a name, and none
is a dollar sign, so that begins a hash."""

_SHOWN = 8


def is_name(text: str) -> bool:
    return re.fullmatch(_NAME, text) is not None


def is_key(text: str) -> bool:
    return re.fullmatch(_KEY, text) is not None


def hashed(key: str) -> str:
    """Returns what stands for a key in a file that does not have the key itself.

    A single round of SHA-256 protects keys that are long and random, and costs little for each request.
    """
    return f"$sha256${sha256(key.encode('ascii')).hexdigest()}"


def fingerprint(key: bytes) -> str:
    """Returns the first digits of a key's hash, by which two sightings of a key can be recognized."""
    return sha256(key).hexdigest()[:_SHOWN]


class ApiKeys:
    """The API keys of a server and the names of their owners.

    Args:
        owners: owner name by SHA-256 digest of the key.
    """

    def __init__(self, owners: Mapping[bytes, str]) -> None:
        self._owners = list(owners.items())

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """Reads keys from a file.

        Each line has a key or its hash, optionally after ``name:``; empty lines and # comments are skipped.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a regular file, contains no key, or has an invalid line. The message does not quote
                the line.
        """
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{path}: not a regular file; the API keys file must be one")
        owners: dict[bytes, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            found = _LINE.fullmatch(text)
            if found is None:
                raise ValueError(
                    f"{path}, line {number}: expected KEY or NAME:KEY; keys may use A-Z a-z 0-9 . _ ~ + / -, "
                    "and hashes of keys are those that 'opwire key' prints"
                )
            key = found["key"]
            digest = bytes.fromhex(found["digest"]) if key is None else sha256(key.encode("ascii")).digest()
            owners[digest] = found["name"] or f"line {number}"
        if not owners:
            raise ValueError(f"{path}: contains no API keys")
        return cls(owners)

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, key: bytes) -> str | None:
        """Returns the name of a key's owner, or None if the key is invalid. Compares with all keys in constant time."""
        given = sha256(key).digest()
        owner = None
        for digest, name in self._owners:
            if hmac.compare_digest(digest, given):
                owner = name
        return owner
