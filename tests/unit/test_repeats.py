"""Requests that were seen before: what counts as the same one."""

from __future__ import annotations

from opwire_service.engine.request_templates import Repeats


def test_finds_what_differs_in_its_tensors_alone():
    repeats = Repeats[str](8)
    repeats.keep(None, b"head AAAA and BB tail", [(5, 9), (14, 16)], "kept")
    assert repeats.find(None, b"head CCCC and DD tail") == "kept"
    assert repeats.find(None, b"head CCCC and DD tale") is None
    assert repeats.find(None, b"heed CCCC and DD tail") is None
    assert repeats.find(None, b"head CCCC end DD tail") is None
    assert repeats.find(None, b"head CCCCC and DD tail") is None
    assert repeats.find("other", b"head CCCC and DD tail") is None


def test_what_stands_elsewhere_is_another_request():
    repeats = Repeats[str](8)
    repeats.keep(None, b"xAAx", [(1, 3)], "inside")
    repeats.keep(None, b"xyAA", [(2, 4)], "behind")
    assert repeats.find(None, b"xBBx") == "inside"
    assert repeats.find(None, b"xyBB") == "behind"
    # Without the cut "inside" it reads like "behind", whose tensor stands elsewhere.
    assert repeats.find(None, b"xBBy") is None


def test_the_places_may_come_in_any_order():
    repeats = Repeats[str](8)
    repeats.keep(None, b"-AA-BB-", [(4, 6), (1, 3)], "kept")
    assert repeats.find(None, b"-CC-DD-") == "kept"


def test_keeps_only_the_last_ones():
    repeats = Repeats[int](2)
    for i in range(3):
        repeats.keep(None, b"%d AA" % i, [(2, 4)], i)
    assert [repeats.find(None, b"%d BB" % i) for i in range(3)] == [None, 1, 2]
    repeats.find(None, b"1 CC")
    repeats.keep(None, b"3 AA", [(2, 4)], 3)
    assert [repeats.find(None, b"%d BB" % i) for i in range(4)] == [None, 1, None, 3]
    assert len(repeats) == 2


def test_does_not_keep_what_is_long_without_its_tensors():
    repeats = Repeats[str](8)
    body = b"-" * 5000 + b"AA"
    repeats.keep(None, body, [(5000, 5002)], "kept")
    assert repeats.find(None, body) is None
    assert len(repeats) == 0
