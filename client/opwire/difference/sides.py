"""The sides that can be compared: each gives the tensors of a model as a backend computed them."""

from __future__ import annotations

import shlex
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from ..errors import OpwireError, ProblemCode, RequestError, TransportError
from ..tensor import Array
from . import programs
from .subjects import Runner, Subject, SubjectNode

_TIMEOUT = 3600.0
"""The seconds after which a program is stopped."""


class SideError(RequestError):
    """A side cannot be used, or failed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ProblemCode.INVALID_REQUEST, detail)


class Side(ABC):
    """A backend, or what it wrote.

    Attributes:
        name: what to call it.
    """

    name: str

    @abstractmethod
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> AbstractContextManager[Tensors]:
        """Runs the model, if need be, and returns its tensors for as long as the context is open.

        Raises:
            SideError: it failed.
        """


class Tensors(ABC):
    """The tensors of a model as a side computed them.

    Attributes:
        failure: how the side failed although it gives some tensors, or "".
    """

    failure: str = ""

    @abstractmethod
    def get(self, name: str) -> Array | None:
        """Returns a tensor, or None if the side does not give it. The nodes of the model ask in their order."""

    def missing(self, name: str) -> str:
        """Returns why the side does not give a tensor."""
        return self.failure or "the side does not give it"

    def offer(self, name: str, array: Array) -> None:  # noqa: B027  # most sides have computed all before
        """Takes the exact tensor that stands in for one that the side does not give, so that it can go on."""

    def names(self) -> list[str]:
        """Returns the names of the tensors that it has, as far as it knows them without the model."""
        return []


class Files(Tensors):
    """Tensors in a folder of ``.npy`` files, each read when it is asked for.

    Args:
        folder: the folder.
        failure: how the side failed, or "".
        reasons: why it does not give tensors, by name.
    """

    def __init__(self, folder: Path, failure: str = "", reasons: Mapping[str, str] | None = None) -> None:
        self.failure = failure
        self._reasons = reasons or {}
        self._found = {_tensor_name(each): str(each) for each in sorted(folder.glob("*.npy"))}

    def get(self, name: str) -> Array | None:
        file = self._found.get(name)
        return None if file is None else np.load(file, mmap_mode="r", allow_pickle=False)

    def missing(self, name: str) -> str:
        return self._reasons.get(name) or super().missing(name)

    def names(self) -> list[str]:
        return list(self._found)


class Archive(Tensors):
    """Tensors in an ``.npz`` file, each read when it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._archive = np.load(file, allow_pickle=False)
        if not isinstance(self._archive, NpzFile):
            raise ValueError("it is not a .npz file")

    def get(self, name: str) -> Array | None:
        return self._archive[name] if name in self._archive.files else None

    def names(self) -> list[str]:
        return list(self._archive.files)


def file_name(tensor: str) -> str:
    """Returns the name of the file that has a tensor; characters that file names lack are written as in URLs."""
    return f"{quote(tensor, ' #$&()+,;=@[]{}')}.npy"


def _tensor_name(file: Path) -> str:
    return unquote(file.name.removesuffix(".npy"))


class FilesSide(Side):
    """What a backend wrote before."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        if self._path.is_dir():
            yield Files(self._path)
            return
        with self._path.open("rb") as file:
            try:
                archive = Archive(file)
            except (ValueError, EOFError, BadZipFile) as error:
                raise SideError(f"{self._path} cannot be read: {error}") from None
            yield archive


class CommandSide(Side):
    """A program that reads inputs and writes tensors as ``.npy`` files."""

    def __init__(self, command: str, timeout: float | None = None) -> None:
        self.name = command
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise SideError(f"{command!r} is not a command: {error}") from None
        if not self._command:
            raise SideError("command: given without a program")
        self._timeout = timeout or _TIMEOUT

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        with tempfile.TemporaryDirectory(prefix="opwire-") as folder:
            given, written = Path(folder, "inputs"), Path(folder, "outputs")
            given.mkdir()
            written.mkdir()
            for name, array in inputs.items():
                np.save(given / file_name(name), array, allow_pickle=False)
            failure = programs.run([*self._command, str(given), str(written)], self._timeout)
            failure = f"{self.name} {failure}" if failure else ""
            if failure and not any(written.iterdir()):
                raise SideError(failure)
            yield Files(written, failure)


class RunnerSide(Side):
    """A device of this machine or a server, which runs the nodes one after the other."""

    def __init__(self, name: str, runner: Runner) -> None:
        self.name = name
        self._runner = runner

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        yield _Chain(subject, inputs, self._runner)


class _Chain(Tensors):
    """Computes each node when its first output is asked for, and drops tensors that no later node reads."""

    def __init__(self, subject: Subject, inputs: Mapping[str, Array], runner: Runner) -> None:
        self._subject = subject
        self._runner = runner
        self._nodes = list(subject.nodes)
        self._next = 0
        self._known: dict[str, Array] = dict(inputs)
        self._last = dict.fromkeys(inputs, -1)
        self._last |= {name: i for i, node in enumerate(self._nodes) for name in (*node.inputs, *node.outputs)}
        self._failed: dict[str, str] = {}

    def get(self, name: str) -> Array | None:
        while name not in self._known and name not in self._failed and self._next < len(self._nodes):
            self._step()
        return self._known.get(name)

    def missing(self, name: str) -> str:
        return self._failed.get(name) or super().missing(name)

    def _step(self) -> None:
        node = self._nodes[self._next]
        missing = [name for name in node.inputs if name not in self._known]
        if self.failure or missing:
            self._failed |= dict.fromkeys(node.outputs, self.failure or f"{missing[0]} is not known")
        else:
            self._run(node)
        self._next += 1
        kept = {*self._subject.outputs, *self._nodes[self._next - 1].inputs}
        self._known = {
            name: array
            for name, array in self._known.items()
            if name in kept or self._last.get(name, 0) >= self._next - 1
        }

    def _run(self, node: SubjectNode) -> None:
        try:
            self._known |= self._subject.run(node, self._known, self._runner)
        except TransportError as error:
            self.failure = str(error)  # later nodes would fail alike, each after some time
            self._failed |= dict.fromkeys(node.outputs, self.failure)
        except OpwireError as error:
            self._failed |= dict.fromkeys(node.outputs, str(error))

    def offer(self, name: str, array: Array) -> None:
        self._known.setdefault(name, array)


class ArraysSide(Side):
    """Tensors in memory."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.name = "arrays"
        self._arrays = arrays

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        yield _Given(self._arrays)


class _Given(Tensors):
    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def get(self, name: str) -> Array | None:
        given = self._arrays.get(name)
        return None if given is None else np.asarray(given)

    def names(self) -> list[str]:
        return [str(name) for name in self._arrays]
