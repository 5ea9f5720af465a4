"""Machine code as text, as ``nvdisasm -c`` prints it: functions of basic blocks of instructions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]+\*/\s+(?P<guard>@!?U?P[0-9T]+\s+)?(?P<name>[A-Z][A-Z0-9_.]*)(?P<operands>.*)"
)
_TARGET = re.compile(r"`\((?P<label>[^)]+)\)")
_LABEL = re.compile(r"(?P<label>[.$\w]+):$")
_ACCESSES = ("LDG", "LD", "STG", "ST", "LDS", "STS")
_WIDTHS = {"64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
_ENDS = ("EXIT", "RET", "KILL")
_IF_APART, _IF_TOGETHER = "BRA.DIV", "BRA.CONV"
"""Branches of warps whose lanes have diverged, or have not; they are taken to have not."""


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        name: mnemonic with its modifiers.
        is_guarded: whether a predicate decides if it takes effect.
        target: label of a branch or of a function that is called.
    """

    name: str
    is_guarded: bool = False
    target: str = ""

    @property
    def base(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_branch(self) -> bool:
        """Whether it goes to a place of the same function; some branches are written as calls that never return."""
        return self.base == "BRA" or (self.base == "CALL" and self.target.startswith(".L_"))

    @property
    def is_conditional(self) -> bool:
        return self.is_branch and self.is_guarded

    @property
    def is_call(self) -> bool:
        return self.base == "CALL" and not self.is_branch

    @property
    def width(self) -> int:
        """Bytes of tensors that a lane loads or stores; none if blocks exchange them, which is ordered."""
        if self.base not in _ACCESSES or "STRONG" in self.name:
            return 0
        return next((_WIDTHS[part] for part in self.name.split(".")[1:] if part in _WIDTHS), 4)


@dataclass
class Block:
    """Instructions that run one after the other, and the numbers of the blocks that may follow."""

    instructions: list[Instruction] = field(default_factory=list)
    next: list[int] = field(default_factory=list)


def functions(text: str) -> dict[str, list[Block]]:
    """Returns the blocks of each function; the first is its entry."""
    blocks: list[Block] = [Block()]
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if found := _LABEL.match(line.strip()):
            if blocks[-1].instructions:
                blocks.append(Block())
            labels[found["label"]] = len(blocks) - 1
        elif found := _INSTRUCTION.match(line):
            target = _TARGET.search(found["operands"])
            blocks[-1].instructions.append(
                Instruction(found["name"], bool(found["guard"]), target["label"] if target else "")
            )
            if _ends_block(blocks[-1].instructions[-1]):
                blocks.append(Block())
    _link(blocks, labels)
    names = {label: i for label, i in labels.items() if not label.startswith(".") and i < len(blocks)}
    return {name: _reachable(blocks, start) for name, start in names.items()}


def _ends_block(last: Instruction) -> bool:
    return last.base in _ENDS or last.is_branch


def _link(blocks: list[Block], labels: dict[str, int]) -> None:
    for i, block in enumerate(blocks):
        if not block.instructions:
            continue
        last = block.instructions[-1]
        if last.is_branch and last.target in labels and last.name != _IF_APART:
            block.next.append(labels[last.target])
        goes_on = not _ends_block(last) or last.name == _IF_APART
        if (goes_on or (last.is_guarded and last.name != _IF_TOGETHER)) and i + 1 < len(blocks):
            block.next.append(i + 1)


def _reachable(blocks: list[Block], start: int) -> list[Block]:
    """Returns the blocks of one function, renumbered."""
    order, pending = {start: 0}, [start]
    while pending:
        for each in blocks[pending.pop()].next:
            if each not in order:
                order[each] = len(order)
                pending.append(each)
    return [Block(blocks[i].instructions, [order[each] for each in blocks[i].next]) for i in order]


def disassembled(binary: bytes) -> str:
    """Returns machine code as text.

    Raises:
        SystemExit: nvdisasm is not installed.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        ran = subprocess.run([_nvdisasm(), "-c", file.name], capture_output=True, text=True, check=True)
    return ran.stdout


def _nvdisasm() -> str:
    spec = find_spec("nvidia")
    found: Iterator[Path] = (
        (path for folder in (spec.submodule_search_locations or ()) for path in Path(folder).glob("cu*/bin/nvdisasm"))
        if spec
        else iter(())
    )
    path = next(found, None)
    if path is None:
        raise SystemExit("nvdisasm is missing: pip install nvidia-cuda-nvdisasm nvidia-cuda-nvrtc")
    return str(path)
