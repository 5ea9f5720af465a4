"""Changes descs at random: members that matter to DirectML, to values that it may judge otherwise than opwire.

A changed desc can still be written as C structs: arrays with a common count keep the same length, and strides the
length of the sizes. Outputs stay written out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from opwire.schema import CATALOG, document, operator_document

from .asking import written_out

Desc = dict[str, Any]

_SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 65536)
_UINTS = (0, 0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 255, 2**31 - 1, 2**31, 2**32 - 1)
_INTS = (0, 1, -1, 2, -2, 3, -3, 8, -8, 2**31 - 1, -(2**31))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1.5, 3.0, 1e-30, 1e-45, 1e30, -1e30, 3.4e38, "inf", "-inf", "nan")
_NUMBERS: dict[str, Sequence[Any]] = {"UINT": _UINTS, "INT": _INTS, "FLOAT": _FLOATS, "BOOL": (False, True)}

_TYPES = tuple(document("types")["enums"]["DML_TENSOR_DATA_TYPE"]["members"])
_FUSED = tuple(name for name in CATALOG if name.startswith(("ACTIVATION_", "ELEMENT_WISE_")))


def mutated(random: Random, type_: str, desc: Desc) -> Desc:
    """Returns a copy of a desc with one to three changes."""
    changed = copy.deepcopy(desc)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
        outputs = copy.deepcopy(changed)
        member = random.choice([each for each in members(type_) if each["kind"] in _CHANGES])
        if random.random() < 0.35:
            random.choice(_OVERALL)(random, type_, changed)
        else:
            _CHANGES[member["kind"]](random, type_, changed, member)
        if random.random() < 0.5:
            changed = _derived_again(type_, changed, outputs)
    return changed


@cache
def members(type_: str) -> tuple[Desc, ...]:
    """Returns the members of an operator type, from the schema."""
    return tuple(operator_document(type_)["members"])


def _derived_again(type_: str, desc: Desc, before: Desc) -> Desc:
    """Returns a desc whose outputs fit its inputs again, where opwire can derive them and they were not changed."""
    names = [each["name"] for each in members(type_) if each.get("role") == "output" and each["kind"] == "tensor"]
    kept = {name: desc[name] for name in names if desc.get(name) != before.get(name)}
    derived = written_out(type_, {**{name: value for name, value in desc.items() if name not in names}, **kept})
    return {**desc, **derived}


def tensors_of(type_: str, desc: Desc) -> list[Desc]:
    """Returns the tensors that a desc gives, those of arrays one by one."""
    names = [each["name"] for each in members(type_) if each["kind"] in ("tensor", "tensors")]
    given = [desc[name] for name in names if desc.get(name)]
    return [tensor for each in given for tensor in (each if isinstance(each, list) else [each])]


# Changes to one tensor


def _resize(random: Random, tensor: Desc) -> None:
    at = random.randrange(len(tensor["Sizes"]))
    size = tensor["Sizes"][at]
    tensor["Sizes"][at] = random.choice((size + 1, max(size - 1, 1), size * 2, *_SIZES, 0))


def _reorder(random: Random, tensor: Desc) -> None:
    random.shuffle(tensor["Sizes"])


def _rank(random: Random, tensor: Desc) -> None:
    _change_rank(tensor, random.choice(("grow", "shrink")), random.choice((0, 1, -1)), random.choice((1, 1, 1, 2)))


def _change_rank(tensor: Desc, how: str, at: int, size: int = 1) -> None:
    """Adds a dimension at the begin, after the first or at the end of a tensor, or removes it."""
    for name, value in (("Sizes", size), ("Strides", 1)):
        listed = tensor.get(name)
        if listed and how == "grow":
            listed.insert(len(listed) if at == -1 else at, value)
        elif listed and len(listed) > 1:
            listed.pop(at)


def _retype(random: Random, tensor: Desc) -> None:
    tensor["DataType"] = random.choice(_TYPES)


def _restride(random: Random, tensor: Desc) -> None:
    sizes = tensor["Sizes"]
    packed = [1] * len(sizes)
    for i in reversed(range(len(sizes) - 1)):
        packed[i] = packed[i + 1] * sizes[i + 1]
    broadcast = [random.choice((0, each)) for each in packed]
    any_ = [random.choice((0, 1, 2, 3, 5, 65536)) for _ in sizes]
    tensor["Strides"] = random.choice((None, packed, broadcast, [0] * len(sizes), [2 * each for each in packed], any_))


def _lay_out(random: Random, tensor: Desc) -> None:
    """Changes a member of the buffer: its total size, alignment or flags."""
    name, values = random.choice(
        (
            ("TotalTensorSizeInBytes", (1, 2, 3, 4, 5, 6, 7, 8, 16, 4096, 4097, 2**32, 2**40)),
            ("GuaranteedBaseOffsetAlignment", (0, 1, 2, 3, 4, 6, 8, 16, 64, 256, 2**31, 2**32 - 1)),
            ("Flags", ("NONE", "OWNED_BY_DML")),
        )
    )
    tensor[name] = random.choice(values)


_TO_TENSOR = (_resize, _resize, _resize, _reorder, _rank, _rank, _retype, _retype, _restride, _lay_out)


# Changes to one member


def _tensor(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    name = member["name"]
    if desc.get(name) is None:
        desc[name] = copy.deepcopy(random.choice(tensors_of(type_, desc)))
        desc[name].pop("Strides", None)
    elif member["role"].startswith("optional") and random.random() < 0.3:
        del desc[name]
    else:
        random.choice(_TO_TENSOR)(random, desc[name])


def _tensor_array(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    given = desc[member["name"]]
    if random.random() < 0.3:
        given.insert(random.randrange(len(given)), copy.deepcopy(random.choice(given)))
    elif random.random() < 0.3 and len(given) > 1:
        given.pop(random.randrange(len(given)))
    else:
        random.choice(_TO_TENSOR)(random, random.choice(given))
    desc.pop(str(member.get("count")), None)


def _number(random: Random, type_: str, desc: Desc, number: str) -> Any:
    """Draws a number that may be an axis, a size or at a limit."""
    tensor = random.choice(tensors_of(type_, desc))
    rank = len(tensor["Sizes"])
    near = (rank - 1, rank, *tensor["Sizes"]) if number in ("UINT", "INT") else ()
    return random.choice((*_NUMBERS[number], *near))


def _scalar(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    desc[member["name"]] = _number(random, type_, desc, member["number"])


def _array(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    given = desc.get(member["name"])
    if given is None:
        return
    if not given or random.random() < 0.3:
        _recount(random, type_, desc, member)
    elif random.random() < 0.2:
        given[random.randrange(len(given))] = random.choice(given)
    elif random.random() < 0.1:
        random.shuffle(given)
    else:
        given[random.randrange(len(given))] = _number(random, type_, desc, member["number"])


def _recount(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    """Makes all arrays with the same count longer or shorter."""
    alike = [each for each in members(type_) if each["kind"] == "array" and each.get("count") == member.get("count")]
    grow = random.random() < 0.5
    for each in alike if member.get("count") else [member]:
        given = desc.get(each["name"])
        if given is not None and grow:
            given.append(given[-1] if given else _number(random, type_, desc, each["number"]))
        elif given:
            given.pop()
    desc.pop(str(member.get("count")), None)


def _enum(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    found = document("types")["enums"][member["enum"]]
    desc[member["name"]] = random.choice(tuple(found["members"]))
    for each in members(type_):
        if each["kind"] == "union" and each["data_type"] == member["name"]:
            _union(random, type_, desc, each)


def _struct(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    if member.get("optional") and desc.get(member["name"]) is not None and random.random() < 0.3:
        del desc[member["name"]]
        return
    found = document("types")["structs"][member["struct"]]
    desc[member["name"]] = {name: random.choice(_NUMBERS[found["number"]]) for name in found["members"]}


def _union(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    is_float = str(desc[member["data_type"]]).removeprefix("DML_TENSOR_DATA_TYPE_").startswith("FLOAT")
    values = [each for each in _FLOATS if not isinstance(each, str)] if is_float else [*_INTS, 2**63]
    desc[member["name"]] = random.choice(values)


def activation(random: Random, type_: str) -> Desc:
    """Returns an operator to fuse, with any numbers and axes, and without tensors."""
    desc: Desc = {}
    for each in members(type_):
        if each["kind"] == "scalar":
            desc[each["name"]] = random.choice(_NUMBERS[each["number"]])
        elif each["kind"] == "array":
            desc[each["name"]] = [random.choice((0, 1, 2, 3)) for _ in range(random.choice((0, 1, 1, 2)))]
    return {"Type": type_, "Desc": desc}


def _operator(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    if member.get("optional") and desc.get(member["name"]) is not None and random.random() < 0.2:
        del desc[member["name"]]
    else:
        desc[member["name"]] = activation(random, _fused(random, member))


def _fused(random: Random, member: Desc) -> str:
    allowed = [name for names in member["activations"].values() for name in names]
    name: str = random.choice(allowed if random.random() < 0.5 else _FUSED)
    return name


def _operators(random: Random, type_: str, desc: Desc, member: Desc) -> None:
    given = desc[member["name"]]
    if random.random() < 0.3:
        given.append(copy.deepcopy(random.choice(given)) if given else activation(random, _fused(random, member)))
    elif random.random() < 0.3 and given:
        given.pop(random.randrange(len(given)))
    elif given:
        given[random.randrange(len(given))] = activation(random, _fused(random, member))
    del given[6:]
    desc.pop(str(member.get("count")), None)


_CHANGES: dict[str, Callable[[Random, str, Desc, Desc], None]] = {
    "tensor": _tensor,
    "tensors": _tensor_array,
    "scalar": _scalar,
    "array": _array,
    "enum": _enum,
    "struct": _struct,
    "union": _union,
    "operator": _operator,
    "operators": _operators,
}
"""Changes a member, by kind. Counts follow their arrays."""


# Changes to several tensors at once


def _every_type(random: Random, type_: str, desc: Desc) -> None:
    """Changes a data type wherever it occurs."""
    tensors = tensors_of(type_, desc)
    before, after = random.choice(tensors)["DataType"], random.choice(_TYPES)
    for tensor in tensors:
        if tensor["DataType"] == before:
            tensor["DataType"] = after


def _every_rank(random: Random, type_: str, desc: Desc) -> None:
    how, at = random.choice(("grow", "shrink")), random.choice((0, 1, -1))
    for tensor in tensors_of(type_, desc):
        _change_rank(tensor, how, at)
    arrays = [each for each in members(type_) if each["kind"] == "array" and desc.get(each["name"])]
    if arrays and random.random() < 0.5:
        _recount(random, type_, desc, random.choice(arrays))


def _every_size(random: Random, type_: str, desc: Desc) -> None:
    """Changes a size wherever it occurs, or at one dimension of all tensors."""
    tensors = tensors_of(type_, desc)
    sizes = random.choice(tensors)["Sizes"]
    at, after, everywhere = random.randrange(len(sizes)), random.choice(_SIZES), random.random() < 0.5
    before = sizes[at]
    for tensor in tensors:
        tensor["Sizes"] = [
            after if size == before and (everywhere or i == at) else size for i, size in enumerate(tensor["Sizes"])
        ]


def _swap(random: Random, type_: str, desc: Desc) -> None:
    first, second = random.choice(tensors_of(type_, desc)), random.choice(tensors_of(type_, desc))
    kept = copy.deepcopy(first)
    for into, given in ((first, copy.deepcopy(second)), (second, kept)):
        into.clear()
        into.update(given)


def _alike(random: Random, type_: str, desc: Desc) -> None:
    """Gives one tensor the sizes of another."""
    tensor = random.choice(tensors_of(type_, desc))
    tensor["Sizes"] = list(random.choice(tensors_of(type_, desc))["Sizes"])
    tensor.pop("Strides", None)


def _packed(random: Random, type_: str, desc: Desc) -> None:
    for tensor in tensors_of(type_, desc):
        tensor.pop("Strides", None)


_OVERALL = (_every_type, _every_rank, _every_size, _swap, _alike, _packed)
