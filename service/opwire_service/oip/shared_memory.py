"""System shared memory: regions of it that clients have registered, to hold the tensors of their requests.

A client may change its memory, or cut it off, whenever it likes. What is mapped would change under a kernel, or end
the process with SIGBUS; so nothing is mapped: bytes are copied in and out through the file, which can at worst be too
short.

A registration is a symbolic link in a folder that all processes of a server share. To make, read or remove one is one
step that no other process can see half done, so none has to ask another. Each owner of an API key has a folder of its
own in that folder, so the names of one owner's regions mean nothing to another.
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
"""Elsewhere shared memory is no file that can be read and written."""

MOST_REGIONS = 256
"""Regions that an owner may have registered at a time."""

PREFIX = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""Allowed prefixes of the names of shared memory objects."""

_NAME = re.compile("[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}")
_LONGEST_KEY = 255
_OBJECTS = "/dev/shm/"


@dataclass(frozen=True, slots=True)
class SharedMemoryRange:
    """Where a tensor of a request lies: bytes of a region.

    Attributes:
        region: its name.
        offset: of the first byte in the region.
        byte_size: bytes that the tensor may take.
        pointer: to what the request says of it.
    """

    region: str
    offset: int
    byte_size: int
    pointer: str


def read_place(parameters: Mapping[str, Any], pointer: str) -> SharedMemoryRange | None:
    """The place that a tensor's parameters name; None where they name none.

    Args:
        pointer: to the parameters.
    """
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    if not isinstance(region, str):
        raise malformed(f"{pointer}/shared_memory_region", f"{show(region)} given where the name of a region belongs")
    size = read_count(parameters, "shared_memory_byte_size", pointer)
    if size is None:
        message = "shared_memory_byte_size is required with shared_memory_region, and missing"
        raise malformed(pointer, message, Code.MISSING_FIELD)
    return SharedMemoryRange(region, read_count(parameters, "shared_memory_offset", pointer) or 0, size, pointer)


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client has registered under a name: ``byte_size`` bytes from ``offset`` on of an object."""

    name: str
    key: str
    offset: int
    byte_size: int

    @classmethod
    def parse(cls, name: str, body: Buffer) -> Registration:
        """From the body of a request to register.

        Raises:
            RequestError: it is not of that form.
        """
        given = parse_json(body)
        if not isinstance(given, dict):
            raise malformed("", f"{show(given)} given where an object belongs")
        if not isinstance(given.get("key"), str):
            raise malformed("", f"key is {show(given.get('key'))}; it must be the name of a shared memory object")
        size = read_count(given, "byte_size", "")
        if not size:
            raise malformed("", "byte_size must be an integer from 1")
        return cls(name, given["key"], read_count(given, "offset", "") or 0, size)

    def to_json(self) -> dict[str, str | int]:
        """As the protocol says it."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}


class Window:
    """Bytes of a shared memory object; it stays what it is when the region is unregistered meanwhile."""

    def __init__(self, file: int, start: int, size: int, place: SharedMemoryRange) -> None:
        self._file = file
        self._start = start
        self._size = size
        self._place = place

    def read(self) -> memoryview:
        """A copy of the bytes, aligned for any data type.

        Raises:
            RequestError: the client has cut its memory off.
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
        """Puts bytes at the beginning of the window.

        Raises:
            RequestError: the client has cut its memory off, or the system has no more.
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
        message = f"the shared memory of region {show(self._place.region)} has become smaller than it was registered"
        return malformed(self._place.pointer, message, Code.OUT_OF_RANGE)


class Regions:
    """The regions that are registered with a server. Each belongs to the owner of the API key that registered it.

    An owner is None where the server asks for no keys; then all clients are one owner.

    Args:
        folder: of the registrations; all processes of the server have the same one.
        prefix: of the shared memory objects that may be used; the others belong to others.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def register(self, region: Registration, owner: str | None) -> None:
        """Makes a region known to its owner under its name.

        Raises:
            RequestError: the name is taken or no name, there are too many, or the object is not there, not allowed, too
                small, or registered by another owner.
        """
        if not _NAME.fullmatch(region.name):
            message = f"{show(region.name)} is no name of a region: up to 128 letters, digits, and any of _ - : ."
            raise malformed("", message)
        if len(self._names(owner)) >= MOST_REGIONS:
            raise malformed("", f"{MOST_REGIONS} regions are registered already, and no more may be")
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
            raise malformed("", f"region {show(region.name)} is registered already; unregister it first") from None
        try:
            self._refuse_foreign(region.key, owner)  # of two owners that register one object at once, neither keeps it
        except RequestError:
            self.unregister(region.name, owner)
            raise

    def unregister(self, name: str | None, owner: str | None) -> None:
        """Forgets a region of an owner, or all of them; requests that use one go on.

        One that is not registered is no error.
        """
        for each in self._names(owner) if name is None else [name]:
            if _NAME.fullmatch(each):
                with suppress(FileNotFoundError):
                    os.unlink(self._folder_of(owner) / each)

    def status(self, name: str | None, owner: str | None) -> list[Registration]:
        """A region of an owner, or all of them.

        Raises:
            NotFoundError: there is none of that name.
        """
        if name is not None:
            return [self._find(name, owner)]
        found = []
        for each in sorted(self._names(owner)):
            with suppress(NotFoundError):  # it has just gone
                found.append(self._find(each, owner))
        return found

    @contextmanager
    def open(self, place: SharedMemoryRange, owner: str | None) -> Generator[Window]:
        """The bytes of a place in an owner's request.

        Raises:
            NotFoundError: the region is not registered by this owner.
            RequestError: the place is not within the region, or the object has gone.
        """
        region = self._find(place.region, owner)
        end = place.offset + place.byte_size
        if end > region.byte_size:
            message = f"bytes {place.offset} to {end} given; region {show(region.name)} has {region.byte_size}"
            raise malformed(place.pointer, message, Code.OUT_OF_RANGE)
        with self._opened(region.key) as file:
            yield Window(file, region.offset + place.offset, place.byte_size, place)

    def _folder_of(self, owner: str | None) -> Path:
        # In hexadecimal, since an owner may be called "..".
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
        """Refuses an object that another owner has registered: by a second name it would be read and overwritten."""
        own = self._folder_of(owner).name
        for folder in os.listdir(self._folder):
            if folder != own and any(_object_name(each.key) == _object_name(key) for each in self._all_in(folder)):
                message = f"shared memory object {show(key)} is registered by the owner of another API key"
                raise malformed("", message, Code.UNKNOWN_VALUE)

    def _all_in(self, folder: str) -> Generator[Registration]:
        for name in os.listdir(self._folder / folder):
            with suppress(FileNotFoundError):  # it has just gone
                yield _read_link(self._folder / folder / name)

    @contextmanager
    def _opened(self, key: str) -> Generator[int]:
        name = _object_name(key)
        if not name.startswith(self._prefix) or "/" in name or "\0" in name or len(name.encode()) > _LONGEST_KEY:
            message = f"{show(key)} is not allowed; the names of shared memory objects begin with /{self._prefix} here"
            raise malformed("", message, Code.UNKNOWN_VALUE)
        try:
            file = os.open(_OBJECTS + name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise malformed("", f"shared memory object {show(key)} cannot be opened: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise malformed("", f"{show(key)} is no shared memory object")
            yield file
        finally:
            os.close(file)


def _object_name(key: str) -> str:
    """The name of the file of a shared memory object."""
    return key.removeprefix("/")


def _read_link(link: Path) -> Registration:
    key, offset, size = json.loads(os.readlink(link))
    return Registration(link.name, key, offset, size)
