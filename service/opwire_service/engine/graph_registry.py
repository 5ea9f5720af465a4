"""The graphs that are registered with a server, known to all of its processes.

Each is a file of a folder that the processes share: ``slots/NUMBER``, with a second link ``owners/OWNER/NAME``. A link
is made, replaced and removed in one step that no other process sees half done, so none has to ask another, and what one
has answered holds for the next request to any of them. Slots are claimed under a lock before they are filled, so all
processes together keep to the bounds. Files are mapped, not read: a process that uses a graph has its bytes until it
is done, also if the graph is removed meanwhile.

Each owner of an API key has names of their own, which mean nothing to another.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryDirectory
from threading import Lock

from opwire.check import Validation, read_level
from opwire.desc import show
from opwire.errors import ContractViolation, LimitExceededError, NotFoundError, ProblemCode, RequestError
from opwire.graph import validate_graph
from opwire.schema import find
from opwire.violation import Code, Violation
from opwire.wire import ExecuteRequest, ValidateRequest

from ..settings import Limits
from .plan_cache import Prepared
from .registered_graph import RegisteredGraph, StoredGraph, as_named

_NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_RESERVED = frozenset({"stats"})
"""Names that stand for something else where models are named."""

_PLANNED_JSON = 4 * 2**20
"""Bytes of JSON of those graphs whose plans a process keeps; the plan of another is made anew for each request."""

_UNFINISHED_SECONDS = 120.0
"""A slot that stays unfilled for longer is taken to be that of a process that died."""


class GraphRegistry:
    """The registered graphs.

    Args:
        folder: that the processes of the server share; one alone makes its own when it first needs one.
        limits: how many graphs there may be, and how many bytes of them.
    """

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._opened = ExitStack()
        self._known: dict[tuple[str | None, str], RegisteredGraph] = {}
        self._planned: OrderedDict[RegisteredGraph, None] = OrderedDict()
        self._lock = Lock()
        self._claims = Lock()

    def close(self) -> None:
        """Forgets all graphs of a process that is alone."""
        self._known.clear()
        self._planned.clear()
        self._opened.close()

    def put(self, name: str, owner: str | None, graph: StoredGraph) -> tuple[RegisteredGraph, bool]:
        """Registers a graph in the place of the owner's of that name, if there is one; returns whether there was none.

        Raises:
            LimitExceededError: there is no room for it.
            RequestError: the name is none, or stands for something else.
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
            detail = f"the graph has {size} bytes, and the system has no room for them: {error.strerror}"
            most = self._limits.graph_bytes
            raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most, size=size) from None
        finally:
            os.close(file)
        self._free_unused()
        self._known[owner, name] = found
        return found, is_new

    def find(self, name: str, owner: str | None) -> RegisteredGraph:
        """The graph of a name.

        Raises:
            NotFoundError: the owner has registered none of that name.
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
        """All graphs of an owner, by name."""
        found = []
        for name in sorted(self._names(owner)):
            with suppress(NotFoundError):  # it has just gone
                found.append(self.find(name, owner))
        return found

    def remove(self, name: str, owner: str | None) -> None:
        """Forgets a graph; requests that use it go on.

        Raises:
            NotFoundError: the owner has registered none of that name.
        """
        found = self.find(name, owner)
        try:
            os.unlink(self._link(name, owner))
        except FileNotFoundError:
            detail = f"no graph {show(name)} is registered any more"
            raise NotFoundError(ProblemCode.NOT_FOUND, detail) from None
        self._forget(found)
        self._known.pop((owner, name), None)
        self._free_unused()

    def plan(
        self, graph: RegisteredGraph, request: ExecuteRequest, prepare: Callable[[ExecuteRequest], Prepared]
    ) -> Prepared:
        """The plan for a request that names a graph, which is kept if it is at the graph's own level.

        It may be called on any thread.

        Raises:
            ContractViolation: the graph is not valid at the level of the request.
        """
        try:
            made = prepare(request._replace(operator=graph.graph))
        except ContractViolation as error:
            raise ContractViolation(as_named(error.violations, request.plan_pointer)) from None
        return self.keep_plan(graph, made) if made.plan.level is graph.level else made

    def keep_plan(self, graph: RegisteredGraph, made: Prepared) -> Prepared:
        """Keeps the plan of a graph at its own level; where there are too many, those made longest ago are dropped."""
        # Its constants are there, and no request takes memory for them.
        made = replace(made, input_bytes=made.input_bytes - graph.constant_bytes)
        with self._lock:
            graph.prepared = made
            self._planned[graph] = None
            while len(self._planned) > 1 and sum(each.json_size for each in self._planned) > _PLANNED_JSON:
                self._planned.popitem(last=False)[0].prepared = None
        return made

    def validate(self, request: ValidateRequest, owner: str | None) -> Validation:
        """What is known of a graph, given as it is or by its name, at a level.

        Raises:
            ContractViolation: there is no such feature level.
            NotFoundError: the owner has registered none of that name.
        """
        graph, level = request.operator, request.feature_level
        if not isinstance(graph, str):
            return validate_graph(graph, read_level(level, "/feature_level"), pointer="/graph")
        named = self.find(graph, owner)
        at = named.level if level is None else read_level(level, "/feature_level")
        found = validate_graph(named.graph, at, pointer="/graph")
        return replace(found, violations=as_named(found.violations, "/graph"))

    def drop_removed(self) -> None:
        """Gives up the bytes of graphs that another process has removed or replaced."""
        for (owner, name), known in list(self._known.items()):
            try:
                is_current = os.stat(self._link(name, owner)).st_ino == known.inode
            except FileNotFoundError:
                is_current = False
            if not is_current:
                self._known.pop((owner, name), None)
                self._forget(known)

    def _open(self, name: str, owner: str | None, link: Path) -> RegisteredGraph:
        self.drop_removed()
        file = os.open(link, os.O_RDONLY)
        try:
            found = self._known[owner, name] = RegisteredGraph(name, file)
        finally:
            os.close(file)
        return found

    def _forget(self, graph: RegisteredGraph) -> None:
        with self._lock:
            self._planned.pop(graph, None)

    def _claim(self, size: int, *, is_new: bool) -> tuple[Path, int]:
        """A slot of this size, and its open file; until it has its name another one stands beside it.

        One that takes the place of another is one too many for a while.
        """
        most, most_bytes = self._limits.graphs, self._limits.graph_bytes
        with self._alone():
            sizes = {int(slot.name): found.st_size for slot, found in self._files()}
            if len(sizes) >= most + (not is_new):
                detail = f"{most} graphs are registered already, and this server keeps no more"
                raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most, size=most + 1)
            there = sum(sizes.values())
            if there + size > most_bytes:
                detail = f"the graph has {size} bytes, the registered ones {there}; this server keeps {most_bytes}"
                raise LimitExceededError(ProblemCode.GRAPHS_FULL, detail, limit=most_bytes, size=size)
            slot = self._slots / str(next(number for number in range(most + 1) if number not in sizes))
            file = os.open(slot, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.link(slot, _unnamed(slot))
            os.ftruncate(file, size)
            return slot, file

    def _free_unused(self) -> None:
        """Frees the slots of graphs that have no name any more, and those that a process left unfinished."""
        with self._alone():
            for slot, found in self._files():
                is_late = time.time() - found.st_mtime > _UNFINISHED_SECONDS
                if found.st_nlink == 1 or (is_late and _unnamed(slot).exists()):
                    _free(slot)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Keeps other threads and processes from claiming and freeing slots."""
        assert self._folder is not None
        if sys.platform == "win32":  # where one process serves
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
                with suppress(FileNotFoundError):  # it has just gone
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
        # In hexadecimal, since an owner may be called "..".
        return self._folder / "owners" / ("anyone" if owner is None else f"owner-{owner.encode().hex()}") / name


def refuse_name(name: str) -> None:
    """
    Raises:
        RequestError: no graph can be registered under this name.
    """
    if not _NAME.fullmatch(name):
        message = f"{show(name)} is no name of a graph: up to 128 letters, digits, and any of _ - ."
    elif find(name) is not None or name in _RESERVED:
        message = f"{show(name)} stands for something else: graphs have other names than operator types"
    else:
        return
    violation = Violation(Code.VALUE_NOT_ALLOWED, "", message)
    raise RequestError(ProblemCode.INVALID_REQUEST, message, violations=[violation])


def _unnamed(slot: Path) -> Path:
    """Stands for the name of a slot that has none yet."""
    return slot.with_suffix(".unnamed")


def _free(slot: Path) -> None:
    for path in (_unnamed(slot), slot):
        with suppress(FileNotFoundError):
            os.unlink(path)
