"""System shared memory: regions of it that clients have registered, to hold the tensors of their requests.

A client may change its memory, or cut it off, whenever it likes. What is mapped would change under a kernel, or end
the process with SIGBUS; so nothing is mapped: bytes are copied in and out through the file, which can at worst be too
short.

A registration is a symbolic link in a folder that all processes of a server share. To make, read or remove one is one
step that no other process can see half done, so none has to ask another.
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
"""Regions that may be registered at a time."""

PREFIX = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""What the names of shared memory objects may be made to begin with."""

_NAME = re.compile("[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}")
_LONGEST_KEY = 255
_OBJECTS = "/dev/shm/"


@dataclass(frozen=True, slots=True)
class Place:
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


def read_place(parameters: Mapping[str, Any], pointer: str) -> Place | None:
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
    return Place(region, read_count(parameters, "shared_memory_offset", pointer) or 0, size, pointer)


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

    def __init__(self, file: int, start: int, size: int, place: Place) -> None:
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
    """The regions that are registered with a server.

    Args:
        folder: of the registrations; all processes of the server have the same one.
        prefix: of the shared memory objects that may be used; the others belong to others.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def register(self, region: Registration, owner: str | None = None) -> None:
        """Makes a region known under its name.

        Raises:
            RequestError: the name is taken or no name, there are too many, or the object is not there, not allowed, or
                too small.
        """
        if not _NAME.fullmatch(region.name):
            message = f"{show(region.name)} is no name of a region: up to 128 letters, digits, and any of _ - : ."
            raise malformed("", message)
        if len(os.listdir(self._folder)) >= MOST_REGIONS:
            raise malformed("", f"{MOST_REGIONS} regions are registered already, and no more may be")
        with self._opened(region.key) as file:
            size = os.fstat(file).st_size
        if region.offset + region.byte_size > size:
            message = (
                f"bytes {region.offset} to {region.offset + region.byte_size} given; {show(region.key)} has {size}"
            )
            raise malformed("", message, Code.OUT_OF_RANGE)
        try:
            os.symlink(json.dumps([region.key, region.offset, region.byte_size]), self._folder / region.name)
        except FileExistsError:
            raise malformed("", f"region {show(region.name)} is registered already; unregister it first") from None

    def unregister(self, name: str | None, owner: str | None = None) -> None:
        """Forgets a region, or all; requests that use one go on. One that is not registered is no error."""
        for each in os.listdir(self._folder) if name is None else [name]:
            if _NAME.fullmatch(each):
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / each)

    def status(self, name: str | None, owner: str | None = None) -> list[Registration]:
        """A region, or all.

        Raises:
            NotFoundError: there is none of that name.
        """
        if name is not None:
            return [self._find(name)]
        found = []
        for each in sorted(os.listdir(self._folder)):
            with suppress(NotFoundError):  # it has just gone
                found.append(self._find(each))
        return found

    @contextmanager
    def open(self, place: Place, owner: str | None = None) -> Generator[Window]:
        """The bytes of a place in a request.

        Raises:
            NotFoundError: the region is not registered.
            RequestError: the place is not within the region, or the object has gone.
        """
        region = self._find(place.region)
        end = place.offset + place.byte_size
        if end > region.byte_size:
            message = f"bytes {place.offset} to {end} given; region {show(region.name)} has {region.byte_size}"
            raise malformed(place.pointer, message, Code.OUT_OF_RANGE)
        with self._opened(region.key) as file:
            yield Window(file, region.offset + place.offset, place.byte_size, place)

    def _find(self, name: str) -> Registration:
        try:
            if _NAME.fullmatch(name):
                key, offset, size = json.loads(os.readlink(self._folder / name))
                return Registration(name, key, offset, size)
        except FileNotFoundError:
            pass
        raise NotFoundError(ProblemCode.NOT_FOUND, f"no shared memory region {show(name)} is registered")

    @contextmanager
    def _opened(self, key: str) -> Generator[int]:
        name = key.removeprefix("/")
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
