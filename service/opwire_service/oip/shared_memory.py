"""System shared memory: regions that clients register to hold the tensors of their requests.

Clients may change or truncate their memory at any time. A mapping could change under a running kernel or kill the
process with SIGBUS, so nothing is mapped: bytes are copied in and out with file reads and writes, which at worst find
the file too short.

A registration is a symbolic link in a folder shared by all worker processes. Creating, reading and removing a link is
atomic, so the workers need no communication. Each owner of an API key has a subfolder, so names are separate.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opwire.desc import show
from opwire.errors import NotFoundError, ProblemCode, RequestError
from opwire.operator import Code
from opwire.wire import Buffer, parse_json

from .refusal import malformed, read_count

AVAILABLE = sys.platform == "linux"
"""Whether shared memory objects are files, as on Linux."""

MAX_REGIONS = 256
"""Maximum number of regions registered at once per owner."""

PREFIX = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""Pattern of the name prefix that a server can be configured to allow."""

_NAME = re.compile("[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}")
_MAX_NAME_BYTES = 255
_OBJECTS = "/dev/shm/"


@dataclass(frozen=True, slots=True)
class SharedMemoryRange:
    """A range of bytes in a region that holds a tensor.

    Attributes:
        region: name of the region.
        offset: offset of the first byte in the region.
        byte_size: size of the range in bytes.
        pointer: JSON pointer to the parameters that name it in the request.
    """

    region: str
    offset: int
    byte_size: int
    pointer: str


def read_place(parameters: Mapping[str, Any], pointer: str) -> SharedMemoryRange | None:
    """Reads the range that a tensor's parameters name, if they do.

    Args:
        parameters: parameters of the tensor.
        pointer: pointer to the parameters.
    """
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    if not isinstance(region, str):
        raise malformed(f"{pointer}/shared_memory_region", f"{show(region)} given; expected the name of a region")
    size = read_count(parameters, "shared_memory_byte_size", pointer)
    if size is None:
        message = "shared_memory_byte_size is missing; it is required with shared_memory_region"
        raise malformed(pointer, message, Code.MISSING_FIELD)
    return SharedMemoryRange(region, read_count(parameters, "shared_memory_offset", pointer) or 0, size, pointer)


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered region: ``byte_size`` bytes of the object ``key``, starting at ``offset``."""

    name: str
    key: str
    offset: int
    byte_size: int

    @classmethod
    def parse(cls, name: str, body: Buffer) -> Registration:
        """Parses the body of a registration request.

        Raises:
            RequestError: the body is malformed.
        """
        given = parse_json(body)
        if not isinstance(given, dict):
            raise malformed("", f"{show(given)} given; expected an object")
        if not isinstance(given.get("key"), str):
            raise malformed("", f"key is {show(given.get('key'))}; it must be the name of a shared memory object")
        size = read_count(given, "byte_size", "")
        if not size:
            raise malformed("", "byte_size must be a positive integer")
        return cls(name, given["key"], read_count(given, "offset", "") or 0, size)

    def to_json(self) -> dict[str, str | int]:
        """Returns the region as described by the protocol."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}


class Window:
    """An open range of a shared memory object. It stays valid if the region is unregistered meanwhile."""

    def __init__(self, file: int, start: int, size: int, place: SharedMemoryRange) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._place = place

    def read(self) -> memoryview:
        """Returns a copy of the bytes, aligned for any data type.

        Raises:
            RequestError: the client has truncated its memory.
        """
        copy = np.empty(self._size, np.uint8).data
        filled = 0
        while filled < self._size:
            count = os.preadv(self._file, [copy[filled:]], self._start + filled)
            if not count:
                raise self._cut_off()
            filled += count
        return copy

    def write(self, data: memoryview) -> None:
        """Writes bytes to the start of the range.

        Raises:
            RequestError: the client has truncated its memory, or the system is out of memory.
        """
        if os.fstat(self._file).st_size < self._start + len(data):
            raise self._cut_off()
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._start + written)
        except OSError as error:
            message = f"region {show(self._place.region)} cannot be written: {error.strerror}"
            raise malformed(self._place.pointer, message) from None

    def _cut_off(self) -> RequestError:
        message = f"the shared memory of region {show(self._place.region)} is smaller than when it was registered"
        return malformed(self._place.pointer, message, Code.OUT_OF_RANGE)


class Regions:
    """The regions registered with a server. Each belongs to the owner of the API key that registered it.

    The owner is None on a server without API keys, where all clients share their regions.

    Args:
        folder: folder of the registrations, shared by all worker processes.
        prefix: name prefix of the shared memory objects that may be used.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def register(self, region: Registration, owner: str | None) -> None:
        """Registers a region for its owner.

        Raises:
            RequestError: the name is taken or invalid, there are too many regions, or the object does not exist, is not
                allowed, is too small, or is registered by another owner.
        """
        if not _NAME.fullmatch(region.name):
            message = (
                f"region name {show(region.name)} given; allowed: 1 to 128 of A-Z a-z 0-9 _ - : . but no leading ."
            )
            raise malformed("", message)
        if len(self._names(owner)) >= MAX_REGIONS:
            raise malformed("", f"{MAX_REGIONS} regions are already registered, which is the maximum")
        with self._opened(region.key) as file:
            size = os.fstat(file).st_size
        if region.offset + region.byte_size > size:
            message = (
                f"bytes {region.offset} to {region.offset + region.byte_size} given; {show(region.key)} has {size}"
            )
            raise malformed("", message, Code.OUT_OF_RANGE)
        self._refuse_foreign(region.key, owner)
        link = self._folder_of(owner) / region.name
        link.parent.mkdir(exist_ok=True)
        try:
            os.symlink(json.dumps([region.key, region.offset, region.byte_size]), link)
        except FileExistsError:
            raise malformed("", f"region {show(region.name)} is already registered; unregister it first") from None
        try:
            self._refuse_foreign(region.key, owner)  # if two owners register one object concurrently, neither keeps it
        except RequestError:
            self.unregister(region.name, owner)
            raise

    def unregister(self, name: str | None, owner: str | None) -> None:
        """Unregisters a region of an owner, or all of them; requests that use one continue.

        Unregistering an unknown region is not an error.
        """
        for each in self._names(owner) if name is None else [name]:
            if _NAME.fullmatch(each):
                with suppress(FileNotFoundError):
                    os.unlink(self._folder_of(owner) / each)

    def status(self, name: str | None, owner: str | None) -> list[Registration]:
        """Returns a region of an owner, or all of them.

        Raises:
            NotFoundError: the owner has no region of that name.
        """
        if name is not None:
            return [self._find(name, owner)]
        found = []
        for each in sorted(self._names(owner)):
            with suppress(NotFoundError):  # unregistered meanwhile
                found.append(self._find(each, owner))
        return found

    @contextmanager
    def open(self, place: SharedMemoryRange, owner: str | None) -> Generator[Window]:
        """Opens a range for a request of an owner.

        Raises:
            NotFoundError: the owner has no such region.
            RequestError: the range exceeds the region, or the object no longer exists.
        """
        region = self._find(place.region, owner)
        end = place.offset + place.byte_size
        if end > region.byte_size:
            message = f"bytes {place.offset} to {end} given; region {show(region.name)} has {region.byte_size}"
            raise malformed(place.pointer, message, Code.OUT_OF_RANGE)
        with self._opened(region.key) as file:
            yield Window(file, region.offset + place.offset, place.byte_size, place)

    def _folder_of(self, owner: str | None) -> Path:
        # Hexadecimal, since an owner could be called "..".
        return self._folder / ("anyone" if owner is None else f"owner-{owner.encode().hex()}")

    def _names(self, owner: str | None) -> list[str]:
        try:
            return os.listdir(self._folder_of(owner))
        except FileNotFoundError:  # this owner has never registered anything
            return []

    def _find(self, name: str, owner: str | None) -> Registration:
        if _NAME.fullmatch(name):
            with suppress(FileNotFoundError):
                return _read_link(self._folder_of(owner) / name)
        raise NotFoundError(ProblemCode.NOT_FOUND, f"no shared memory region {show(name)} is registered")

    def _refuse_foreign(self, key: str, owner: str | None) -> None:
        """Refuses an object registered by another owner, whose memory could otherwise be read and overwritten."""
        own = self._folder_of(owner).name
        for folder in os.listdir(self._folder):
            if folder != own and any(_object_name(each.key) == _object_name(key) for each in self._all_in(folder)):
                message = f"shared memory object {show(key)} is registered by the owner of another API key"
                raise malformed("", message, Code.UNKNOWN_VALUE)

    def _all_in(self, folder: str) -> Generator[Registration]:
        for name in os.listdir(self._folder / folder):
            with suppress(FileNotFoundError):  # unregistered meanwhile
                yield _read_link(self._folder / folder / name)

    @contextmanager
    def _opened(self, key: str) -> Generator[int]:
        name = _object_name(key)
        if not name.startswith(self._prefix) or "/" in name or "\0" in name or len(name.encode()) > _MAX_NAME_BYTES:
            message = f"{show(key)} is not allowed; names of shared memory objects start with /{self._prefix} here"
            raise malformed("", message, Code.UNKNOWN_VALUE)
        try:
            file = os.open(_OBJECTS + name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise malformed("", f"shared memory object {show(key)} cannot be opened: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise malformed("", f"{show(key)} is not a shared memory object")
            yield file
        finally:
            os.close(file)


def _object_name(key: str) -> str:
    """Returns the file name of a shared memory object."""
    return key.removeprefix("/")


def _read_link(link: Path) -> Registration:
    key, offset, size = json.loads(os.readlink(link))
    return Registration(link.name, key, offset, size)
