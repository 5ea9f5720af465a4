"""Registry of graphs, shared by all worker processes of a server.

Each graph is a file ``slots/NUMBER`` in a shared folder, with a second hard link ``owners/OWNER/NAME``. Links are
created, replaced and removed atomically, so the workers need no communication, and a change is visible to the next
request to any of them. Slots are claimed under a file lock before they are filled, so that the limits hold for all
workers together. Files are memory-mapped: a worker that uses a graph keeps its bytes even if it is removed meanwhile.

Names are separate for each owner of an API key.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryDirectory
from threading import Lock

from opwire.check import Validation, read_level
from opwire.desc import show
from opwire.errors import LimitExceededError, NotFoundError, ProblemCode, RequestError
from opwire.graph import validate_graph
from opwire.schema import find
from opwire.violation import Code, Violation
from opwire.wire import ValidateRequest

from ..settings import Limits
from .registered_graph import RegisteredGraph, StoredGraph, as_named

_NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_RESERVED = frozenset({"stats"})
"""Names with a meaning of their own in the model routes."""

_UNFINISHED_SECONDS = 120.0
"""Age after which an unfilled slot is presumed to belong to a dead process."""


class GraphRegistry:
    """The registered graphs of a server.

    Args:
        folder: folder shared by the worker processes; a single process creates its own on first use.
        limits: limits of the number and total size of graphs.
    """

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._opened = ExitStack()
        self._known: dict[tuple[str | None, str], RegisteredGraph] = {}
        self._claims = Lock()

    def close(self) -> None:
        """Drops all graphs of this process, and the files if the folder is its own."""
        self._known.clear()
        self._opened.close()

    def put(self, name: str, owner: str | None, graph: StoredGraph) -> tuple[RegisteredGraph, bool]:
        """Registers a graph, replacing the owner's graph of that name if there is one.

        Returns:
            The graph, and whether its name is new.

        Raises:
            LimitExceededError: there is no room for it.
            RequestError: the name is invalid or reserved.
        """
        refuse_name(name)
        self._make_folder()
        self._free_unused()
        size, link = graph.size, self._link(name, owner)
        is_new = not link.exists()
        slot, file = self._claim(size, is_new=is_new)
        try:
            graph.write(file, int(slot.name), randbits(62))
            link.parent.mkdir(exist_ok=True)
            os.replace(_unnamed(slot), link)
            found = RegisteredGraph(name, file)
        except OSError as error:
            _free(slot)
            detail = f"the {size} bytes of the graph could not be stored: {error.strerror}"
            most = self._limits.graph_bytes
            raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most, size=size) from None
        finally:
            os.close(file)
        self._free_unused()
        self._known[owner, name] = found
        return found, is_new

    def find(self, name: str, owner: str | None) -> RegisteredGraph:
        """Returns the owner's graph of a name.

        Raises:
            NotFoundError: the owner has no graph of that name.
        """
        known = self._known.get((owner, name))
        if self._folder is not None and _NAME.fullmatch(name):
            link = self._link(name, owner)
            with suppress(FileNotFoundError):
                if known is not None and os.stat(link).st_ino == known.inode:
                    return known
                return self._open(name, owner, link)
        raise NotFoundError(ProblemCode.NOT_FOUND, f"no graph {show(name)} is registered; GET /v1/graphs lists them")

    def of(self, owner: str | None) -> list[RegisteredGraph]:
        """Returns all graphs of an owner, sorted by name."""
        found = []
        for name in sorted(self._names(owner)):
            with suppress(NotFoundError):  # removed meanwhile
                found.append(self.find(name, owner))
        return found

    def remove(self, name: str, owner: str | None) -> None:
        """Removes a graph; requests that use it continue.

        Raises:
            NotFoundError: the owner has no graph of that name.
        """
        self.find(name, owner)
        try:
            os.unlink(self._link(name, owner))
        except FileNotFoundError:
            detail = f"graph {show(name)} is no longer registered"
            raise NotFoundError(ProblemCode.NOT_FOUND, detail) from None
        self._known.pop((owner, name), None)
        self._free_unused()

    def validate(self, request: ValidateRequest, owner: str | None) -> Validation:
        """Validates a graph, given inline or by its name, at a feature level.

        Raises:
            ContractViolation: the feature level does not exist.
            NotFoundError: the owner has no graph of that name.
        """
        graph, level, strict = request.operator, request.feature_level, request.strict
        if not isinstance(graph, str):
            at = read_level(level, "/feature_level")
            return validate_graph(graph, at, strict=strict, pointer=request.plan_pointer)
        named = self.find(graph, owner)
        at = named.level if level is None else read_level(level, "/feature_level")
        found = validate_graph(named.graph, at, strict=strict, pointer="/graph")
        violations, warnings = (as_named(each, "/graph") for each in (found.violations, found.warnings))
        return replace(found, violations=violations, warnings=warnings)

    def drop_removed(self) -> None:
        """Drops graphs that another process has removed or replaced."""
        for (owner, name), known in list(self._known.items()):
            try:
                is_current = os.stat(self._link(name, owner)).st_ino == known.inode
            except FileNotFoundError:
                is_current = False
            if not is_current:
                self._known.pop((owner, name), None)

    def _open(self, name: str, owner: str | None, link: Path) -> RegisteredGraph:
        self.drop_removed()
        file = os.open(link, os.O_RDONLY)
        try:
            found = self._known[owner, name] = RegisteredGraph(name, file)
        finally:
            os.close(file)
        return found

    def _claim(self, size: int, *, is_new: bool) -> tuple[Path, int]:
        """Claims a slot of ``size`` bytes and returns it with its open file. A second link marks it as still unnamed.

        A graph that replaces another may exceed the number of graphs by one until the old one is freed.
        """
        most, most_bytes = self._limits.graphs, self._limits.graph_bytes
        with self._alone():
            sizes = {int(slot.name): found.st_size for slot, found in self._files()}
            if len(sizes) >= most + (not is_new):
                detail = f"{len(sizes)} graphs are registered; this server keeps at most {most}"
                raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most, size=most + 1)
            there = sum(sizes.values())
            if there + size > most_bytes:
                detail = (
                    f"{size} bytes in the graph, {there} in those registered; this server keeps at most {most_bytes}"
                )
                raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most_bytes, size=size)
            slot = self._slots / str(next(number for number in range(most + 1) if number not in sizes))
            file = os.open(slot, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.link(slot, _unnamed(slot))
            os.ftruncate(file, size)
            return slot, file

    def _free_unused(self) -> None:
        """Frees the slots of graphs without a name, and those left unfinished by a dead process."""
        with self._alone():
            for slot, found in self._files():
                is_late = time.time() - found.st_mtime > _UNFINISHED_SECONDS
                if found.st_nlink == 1 or (is_late and _unnamed(slot).exists()):
                    _free(slot)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Excludes other threads and processes from claiming and freeing slots."""
        assert self._folder is not None
        if sys.platform == "win32":  # always a single process
            with self._claims:
                yield
            return
        import fcntl

        with (self._folder / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for name in os.listdir(self._slots):
            if name.isdecimal():
                with suppress(FileNotFoundError):  # freed meanwhile
                    yield self._slots / name, os.stat(self._slots / name)

    def _names(self, owner: str | None) -> list[str]:
        try:
            return [] if self._folder is None else os.listdir(self._link("", owner))
        except FileNotFoundError:  # this owner has never registered anything
            return []

    def _make_folder(self) -> None:
        if self._folder is None:
            self._folder = Path(self._opened.enter_context(TemporaryDirectory(prefix="opwire-graphs-")))
        for name in ("slots", "owners"):
            (self._folder / name).mkdir(exist_ok=True)

    @property
    def _slots(self) -> Path:
        assert self._folder is not None
        return self._folder / "slots"

    def _link(self, name: str, owner: str | None) -> Path:
        assert self._folder is not None
        # Hexadecimal, since an owner could be called "..".
        return self._folder / "owners" / ("anyone" if owner is None else f"owner-{owner.encode().hex()}") / name


def refuse_name(name: str) -> None:
    """Refuses names under which no graph can be registered.

    Raises:
        RequestError: the name is invalid or reserved.
    """
    if not _NAME.fullmatch(name):
        message = f"graph name {show(name)} given; allowed: 1 to 128 of A-Z a-z 0-9 _ - . but no leading ."
    elif find(name) is not None or name in _RESERVED:
        message = f"graph name {show(name)} given; operator types and {', '.join(map(repr, _RESERVED))} are reserved"
    else:
        return
    violation = Violation(Code.VALUE_NOT_ALLOWED, "", message)
    raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])


def _unnamed(slot: Path) -> Path:
    """Returns the link that marks a slot as still unnamed."""
    return slot.with_suffix(".unnamed")


def _free(slot: Path) -> None:
    for path in (_unnamed(slot), slot):
        with suppress(FileNotFoundError):
            os.unlink(path)
