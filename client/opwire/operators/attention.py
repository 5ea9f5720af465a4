"""MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: multi-head scaled dot-product attention.

Source: ``DML_MULTIHEAD_ATTENTION_OPERATOR_DESC`` and ``DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC``; ONNX Runtime for the
shapes of a BOOLEAN mask, the relative position bias and the past lengths. DirectML itself shows that past keys and
values are given together, and may be all there are, and that a mask may be left out. opwire's own rule: the query heads
are a multiple of the key/value heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..enums import MultiheadAttentionMaskType as MaskType
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import (
    NamedSize,
    Output,
    OutputRule,
    Rule,
    Sizes,
    Values,
    absent,
    computable,
    divides,
    documented,
    equal,
    exactly_one_given,
    given_together,
    number,
    observed,
    required,
    same_rank,
    same_type,
    shapes,
    size,
    when,
    with_tensor,
    without_tensor,
)
from ..violation import Code
from .heads import KEYS, PAST, QUERIES, VALUES, Extent, Extents, Heads, KeysGiven, LengthsFit, Source, extents_of
from .work import STEP

_PLAIN = ("QueryTensor", "KeyTensor", "ValueTensor")
_NEW = (*_PLAIN, "StackedQueryKeyTensor", "StackedKeyValueTensor", "StackedQueryKeyValueTensor")
_BESIDE = ("BiasTensor", "RelativePositionBiasTensor", *PAST)


@dataclass(frozen=True, slots=True)
class Ranked(Output):
    """An output with the data type of the query, and optional leading ones.

    Attributes:
        heads: the attributes that count heads.
        sizes: returns its sizes.
        is_typed: whether DirectML enforces its data type even if the query is stacked.
    """

    heads: Heads
    sizes: Callable[[Extents, Values], Sizes]
    is_typed: bool = False

    def rule(self, values: Values) -> OutputRule | None:
        extents = extents_of(values, self.heads)
        if extents is None:
            return None
        tensor = extents.query.tensor
        same_as = tensor if self.is_typed or tensor == "QueryTensor" else None
        return OutputRule(self.sizes(extents, values), values[tensor].data_type, same_as, leading_ones=True)


_MOST = 2**32
"""Exceeds the maximum number of elements of a tensor."""


def _output(heads: Heads) -> Ranked:
    def sizes(extents: Extents, values: Values) -> Sizes:
        query = extents.query
        plain = [values[name].rank for name in _PLAIN if values[name] is not None]
        ones = ((1,),) * (plain[0] - 3 if plain else 0)
        return *ones, (query.batch,), (query.length,), (values[heads.query] * extents.value.head,)

    return Ranked(heads, sizes, is_typed=True)


def _present(heads: Heads, of: Callable[[Extents], Source]) -> Ranked:
    """Returns the output of present keys or values: past and new ones. A cache with given lengths may be larger."""

    def sizes(extents: Extents, values: Values) -> Sizes:
        cached = values.get("PastSequenceLengthsTensor") is not None
        present = range(extents.total, _MOST) if cached else (extents.total,)
        return (extents.query.batch,), (values[heads.key_value],), present, (of(extents).head,)

    return Ranked(heads, sizes)


def _shapes(heads: Heads) -> Iterator[Rule | tuple[Rule, ...]]:
    """Yields the rules for the shapes of the inputs, which may have leading ones."""
    queries, keys = number(heads.query), number(heads.key_value)
    total = Extent("total", heads, lambda extents: extents.total)
    batch = Extent("batchSize", heads, lambda extents: extents.query.batch)
    sequence = Extent("sequenceLength", heads, lambda extents: extents.query.length)
    head = Extent("headSize", heads, lambda extents: extents.query.head)
    value_head = Extent("valueHeadSize", heads, lambda extents: extents.value.head)
    scores = (..., batch, queries, sequence, total)
    bias = Extent(
        "hidden sizes", heads, lambda extents: extents.query.hidden + extents.key.hidden + extents.value.hidden
    )
    # With a single number of heads, DirectML compares the sizes of all heads, and rounds that of one down.
    own = heads.query == heads.key_value
    query_hidden, key_hidden = ("hiddenSize",) * 2 if own else (NamedSize("headSize", each) for each in (queries, keys))
    new = (..., "batchSize", "keyValueSequenceLength")
    yield shapes(
        QueryTensor=(..., "batchSize", "sequenceLength", query_hidden),
        StackedQueryKeyTensor=("batchSize", "keyValueSequenceLength", queries, 2, "headSize"),
        StackedQueryKeyValueTensor=("batchSize", "keyValueSequenceLength", queries, 3, "headSize"),
        KeyTensor=(*new, key_hidden),
        StackedKeyValueTensor=("batchSize", "keyValueSequenceLength", keys, 2, head),
        ValueTensor=(*new, NamedSize("valueHeadSize", keys)),
        BiasTensor=(..., bias),
        PastKeyTensor=(..., "batchSize", keys, "pastSequenceLength", head),
        PastValueTensor=(..., "batchSize", keys, "pastSequenceLength", value_head),
        RelativePositionBiasTensor=scores,
    )
    if own:
        whole = divides(queries, size("QueryTensor", -1))
        yield documented(whole)
        yield computable(whole)
    yield when("MaskType", MaskType.KEY_SEQUENCE_LENGTH, shapes(MaskTensor=(..., 1, batch)))
    yield when("MaskType", MaskType.KEY_SEQUENCE_END_START, shapes(MaskTensor=(..., 2, batch)))
    yield when("MaskType", MaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END, shapes(MaskTensor=(..., 3 * batch + 2)))
    yield when("MaskType", MaskType.BOOLEAN, shapes(MaskTensor=scores))


def _rules(heads: Heads) -> Iterator[Rule | tuple[Rule, ...]]:
    yield same_type(*_NEW)
    yield with_tensor("QueryTensor", same_type("QueryTensor", *_BESIDE))
    yield without_tensor("QueryTensor", *documented(same_type(*_NEW, *_BESIDE)))
    yield exactly_one_given(*QUERIES)
    yield observed(KeysGiven())
    for names in (KEYS, VALUES):
        whole, single = exactly_one_given(*names)
        yield single
        yield with_tensor("PastKeyTensor", *documented(whole), *computable(whole))
    yield given_together(*PAST)
    yield when("MaskType", MaskType.NONE, absent("MaskTensor"))
    yield from _shapes(heads)
    yield observed(same_rank(*_PLAIN, "OutputTensor"))


def _grouped(heads: Heads) -> Iterator[Rule | tuple[Rule, ...]]:
    """Yields the rules for query heads that share key/value heads. Stacked tensors have equally many of both."""
    queries, keys = number(heads.query), number(heads.key_value)
    yield divides(keys, queries)
    for stacked in QUERIES[1:]:
        yield with_tensor(stacked, equal(queries, keys))
    cached = (required(name) for name in ("OutputPresentKeyTensor", "OutputPresentValueTensor"))
    yield observed(with_tensor("PastSequenceLengthsTensor", *cached))
    yield LengthsFit("PastSequenceLengthsTensor", Extent("batchSize", heads, lambda extents: extents.query.batch))


_TILE = 128
"""Number of queries that are processed together."""


def _work(heads: Heads) -> Callable[[Attributes, Tensors], int]:
    """Each query visits each key, including past ones, and each value. Each tile of queries has a fixed cost."""

    def work(attributes: Attributes, tensors: Tensors) -> int:
        counts = {name: getattr(attributes, name) for name in heads}
        extents = extents_of({**tensors, **counts}, heads)
        assert extents is not None  # a plan has all of them
        query, count = extents.query, counts[heads.query]
        scores = query.batch * count * query.length * extents.total
        tiles = query.batch * count * -(-query.length // _TILE)
        visits = scores * (query.head + extents.value.head + 1)
        return int(tensors["OutputTensor"].element_count + STEP * tiles + visits)

    return work


def _attention(
    name: str,
    heads: Heads,
    *rules: Rule | tuple[Rule, ...],
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
) -> Operator[Attributes]:
    return declare(
        name,
        rules=(*_rules(heads), *rules),
        outputs={
            "OutputTensor": _output(heads),
            "OutputPresentKeyTensor": _present(heads, lambda extents: extents.key),
            "OutputPresentValueTensor": _present(heads, lambda extents: extents.value),
        },
        work=_work(heads),
        examples=examples,
        bad_examples=bad_examples,
    )


def _tensor(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def _desc(heads: dict[str, int], **changes: Any) -> dict[str, Any]:
    """Returns a desc with one query, two keys and two values, of two numbers each."""
    return {
        "QueryTensor": _tensor(1, 1, 2),
        "KeyTensor": _tensor(1, 2, 2),
        "ValueTensor": _tensor(1, 2, 2),
        "Scale": 1,
        "MaskFilterValue": -10000,
        "MaskType": "NONE",
        **heads,
        **changes,
    }


_ONE, _TWO, _SHARED = {"HeadCount": 1}, {"HeadCount": 2}, {"QueryHeadCount": 2, "KeyValueHeadCount": 1}
_EQUAL_KEYS = {"KeyTensor": [[[1, 1], [1, 1]]], "ValueTensor": [[[2, 0], [4, 6]]]}

FAMILY = (
    _attention(
        "MULTIHEAD_ATTENTION",
        Heads("HeadCount", "HeadCount"),
        examples=(
            Example(
                "equal_scores", _desc(_ONE), {"QueryTensor": [[[1, 2]]], **_EQUAL_KEYS}, {"OutputTensor": [[[3, 3]]]}
            ),
            Example(
                "second_key_masked",
                _desc(_ONE, MaskType="KEY_SEQUENCE_LENGTH", MaskTensor=_tensor(1, 1, data_type="INT32")),
                {"QueryTensor": [[[1, 2]]], **_EQUAL_KEYS, "MaskTensor": [[1]]},
                {"OutputTensor": [[[2, 0]]]},
            ),
        ),
        bad_examples=(
            BadExample(
                "two_sources_of_keys",
                _desc(_ONE, StackedKeyValueTensor=_tensor(1, 2, 1, 2, 2), ValueTensor=None),
                Code.UNEXPECTED_TENSOR,
                "/StackedKeyValueTensor",
            ),
            BadExample(
                "heads_of_unequal_size",
                _desc(_TWO, ValueTensor=_tensor(1, 2, 3)),
                Code.SIZES_MISMATCH,
                "/ValueTensor/Sizes/2",
            ),
            BadExample(
                "output_of_another_rank",
                _desc(_ONE, OutputTensor=_tensor(1, 1, 1, 2)),
                Code.RANKS_DIFFER,
                "/OutputTensor/Sizes",
            ),
        ),
    ),
    _attention(
        "MULTIHEAD_ATTENTION1",
        Heads("QueryHeadCount", "KeyValueHeadCount"),
        *_grouped(Heads("QueryHeadCount", "KeyValueHeadCount")),
        examples=(
            Example(
                "shared_keys",
                _desc(_SHARED, QueryTensor=_tensor(1, 1, 4)),
                {"QueryTensor": [[[1, 2, 3, 4]]], **_EQUAL_KEYS},
                {"OutputTensor": [[[3, 3, 3, 3]]]},
            ),
        ),
        bad_examples=(
            BadExample(
                "heads_that_cannot_share",
                _desc({"QueryHeadCount": 3, "KeyValueHeadCount": 2}),
                Code.SIZES_MISMATCH,
                "/QueryHeadCount",
            ),
            BadExample(
                "lengths_of_another_batch",
                _desc(_SHARED, QueryTensor=_tensor(1, 1, 4), PastSequenceLengthsTensor=_tensor(2, data_type="INT32")),
                Code.SIZES_MISMATCH,
                "/PastSequenceLengthsTensor/Sizes",
            ),
        ),
    ),
)
