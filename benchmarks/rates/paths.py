"""The common path of a kernel: which of its blocks run for nearly all elements, and how often.

A loop counts as one block, whose own path is found first. From there on a function has no cycles, and its common path
is the one with the most value: each byte that it loads or stores is worth some instructions, fewer if the access is
narrow, each instruction costs, and calls and atomic operations cost the most. So it takes the vector instead of single
elements, enters the loops that move data, and leaves out what settles undecided results, which does much for few bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .disassembly import Block, Instruction

_BYTE = 24.0
"""Instructions that a byte of global memory is worth in the widest accesses of a kernel."""

_RARE = 1e5
"""Cost of a call or of an atomic operation, in instructions."""

_BRANCH = 40
"""Cost of a conditional branch: what runs for nearly all elements has few, and a chain of them skips it."""

_DOUBLE = 4
"""Cost of an instruction of float64: kernels that can do without need it for what is undecided."""

_NOMINAL = 4
"""Iterations of a loop that moves data, while paths are compared."""

FLOAT64 = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_ATOMIC = ("ATOM", "ATOMG", "RED")
_LOADS, _STORES = ("LDG", "LD"), ("STG", "ST")


def _cost(each: Instruction) -> float:
    if each.base in _ATOMIC or each.is_call:
        return _RARE
    return (_DOUBLE if each.base in FLOAT64 else 1) + _BRANCH * each.is_conditional


@dataclass
class Path:
    """What runs in order.

    Attributes:
        counts: number of instructions by name.
        loops: paths of one iteration of each loop.
    """

    counts: Counter[Instruction] = field(default_factory=Counter)
    loops: list[Path] = field(default_factory=list)

    def own(self, *names: str) -> int:
        """Returns the bytes that a lane moves by some instructions, without those of loops."""
        return sum(each.width * count for each, count in self.counts.items() if each.base in names)

    def moved(self, *names: str) -> int:
        """Returns the bytes that a lane moves by some instructions, with one iteration of each loop within."""
        return self.own(*names) + sum(loop.moved(*names) for loop in self.loops)

    def value(self, widest: int) -> float:
        """Returns its value in instructions, given the widest access of the kernel; the narrower, the less worth."""
        own = 0.0
        for each, count in self.counts.items():
            moved = each.width if each.base in (*_LOADS, *_STORES) else 0
            own += count * (_BYTE * moved * moved / widest - _cost(each))
        return own + sum((_NOMINAL if loop.moved(*_LOADS, *_STORES) else 1) * loop.value(widest) for loop in self.loops)

    def joined(self, other: Path) -> Path:
        return Path(self.counts + other.counts, [*self.loops, *other.loops])


def common_path(blocks: Sequence[Block]) -> Path:
    """Returns the common path from the first block to an end."""
    graph = {i: tuple(block.next) for i, block in enumerate(blocks)}
    accesses = (each for block in blocks for each in block.instructions if each.base in (*_LOADS, *_STORES))
    return _best(blocks, graph, 0, max((each.width for each in accesses), default=1))


def _best(blocks: Sequence[Block], graph: Mapping[int, Sequence[int]], start: int, widest: int) -> Path:
    """Returns the most valuable path from a block to one without a successor in the graph."""
    best: dict[int, tuple[float, Path]] = {}  # from each component to an end
    component_of: dict[int, int] = {}
    for number, component in enumerate(_components(graph, start)):  # successors come first
        component_of |= dict.fromkeys(component, number)
        inside = set(component)
        own = _own(blocks, graph, component, start, widest)
        onward = {component_of[each] for i in component for each in graph[i] if each not in inside}
        choices = [best[each] for each in onward] or [(0.0, Path())]
        value, path = max(choices, key=lambda choice: choice[0])
        best[number] = value + own.value(widest), own.joined(path)
    return best[component_of[start]][1]


def _own(
    blocks: Sequence[Block], graph: Mapping[int, Sequence[int]], component: list[int], start: int, widest: int
) -> Path:
    """Returns the path of a block, or of a loop."""
    if len(component) == 1 and component[0] not in graph[component[0]]:
        return Path(Counter(blocks[component[0]].instructions))
    inside = set(component)
    entered = {each for i in graph if i not in inside for each in graph[i] if each in inside}
    header = start if start in inside else min(entered)
    body = {i: [each for each in graph[i] if each in inside and each != header] for i in component}
    ends = [i for i in component if header in graph[i]]
    # An iteration ends where it returns to the header, even if the block may also go on.
    finish = -1
    body |= {i: [finish] if set(body[i]) == set() else [*body[i], finish] for i in ends}
    body[finish] = []
    return Path(loops=[_best([*blocks, Block()], _to_end(body, header, finish), header, widest)])


def _to_end(graph: dict[int, list[int]], start: int, end: int) -> dict[int, list[int]]:
    """Returns the part of a graph from which the end can be reached."""
    reaching, changed = {end}, True
    while changed:
        found = {i for i, following in graph.items() if i not in reaching and reaching.intersection(following)}
        reaching |= found
        changed = bool(found)
    return {i: [each for each in following if each in reaching] for i, following in graph.items() if i in reaching}


def _components(graph: Mapping[int, Sequence[int]], start: int) -> Iterator[list[int]]:
    """Returns the strongly connected components that can be reached, each after those that follow it (Kosaraju)."""
    order = _depth_first(graph, start, set())
    backward: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for each in graph[node]:
            backward[each].append(node)
    seen: set[int] = set()
    return reversed([_depth_first(backward, node, seen) for node in reversed(order) if node not in seen])


def _depth_first(graph: Mapping[int, Sequence[int]], start: int, seen: set[int]) -> list[int]:
    """Returns the nodes that can be reached and were not seen, each after those that follow it but for cycles."""
    order, stack = [], [(start, iter(graph[start]))]
    seen.add(start)
    while stack:
        node, following = stack[-1]
        each = next((each for each in following if each not in seen), None)
        if each is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(each)
            stack.append((each, iter(graph[each])))
    return order
