"""opwire's judgement of descs against the recorded answers of DirectML, at every level that has answers."""

from __future__ import annotations

from tests.directml.recorded import disagreements, listed


def test_descs_are_valid_where_directml_accepts_them():
    found = {each.recorded.key: each for each in disagreements()}
    known = {key for entries in listed().values() for keys in entries.values() for key in keys}
    unlisted = [str(each) for key, each in found.items() if key not in known]
    assert not unlisted, "\n".join([f"{len(unlisted)} descs disagree, among them", *unlisted[:10]])


def test_settled_disagreements_are_not_listed():
    operators = listed()["open"]
    found = {each.recorded.key for each in disagreements(operators)}
    settled = {name: sorted(set(keys) - found) for name, keys in operators.items() if not found.issuperset(keys)}
    assert not settled, "remove them with `python -m tests.directml.recorded --shrink`"
