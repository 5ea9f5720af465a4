"""JUnit files, whose tests CI systems show: one for each node."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ..results import Differences, NodeDifference, Verdict
from .wording import describe_worst, percent, title, ulp_text, verdict_text

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(found: Differences) -> str:
    """Returns a comparison as JUnit XML. Nodes that are wrong fail, and those that are not compared are skipped."""
    skipped = sum(node.verdict is Verdict.UNKNOWN for node in found.nodes)
    counts = {"tests": len(found.nodes), "failures": len(found.wrong), "errors": 0, "skipped": skipped}
    root = Element("testsuites", {"name": "opwire diff", **_texts(counts)})
    suite = SubElement(root, "testsuite", {"name": _text(f"{found.subject} against {found.side}"), **_texts(counts)})
    for node in found.nodes:
        _add(suite, found, node)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add(suite: Element, found: Differences, node: NodeDifference) -> None:
    owner = f"{found.subject}.{node.operator}"
    case = SubElement(suite, "testcase", {"classname": _text(owner), "name": _text(title(node)), "time": "0"})
    if node.verdict is Verdict.WRONG:
        failure = SubElement(case, "failure", {"type": str(node.verdict), "message": _text(_message(node))})
        failure.text = _text("\n".join(_lines(node)))
    elif node.verdict is Verdict.UNKNOWN:
        SubElement(case, "skipped", {"message": _text(verdict_text(node))})
    else:
        SubElement(case, "system-out").text = _text("\n".join([verdict_text(node), *_lines(node)]))


def _message(node: NodeDifference) -> str:
    worst = describe_worst(node)
    return f"{verdict_text(node)}; {worst}" if worst else verdict_text(node)


def _lines(node: NodeDifference) -> list[str]:
    """Says of each tensor how far it is off."""
    return [
        f"{each.name} {each.dtype}{list(each.sizes)}: {each.verdict}, up to {ulp_text(each.largest_ulp)} ULP, "
        f"{percent(each.correctly_rounded)} rounded correctly, {each.different} elements differ"
        for each in node.tensors
        if each.histogram
    ]


def _texts(counts: dict[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counts.items()}


def _text(given: str) -> str:
    """Returns a text without the characters that XML lacks."""
    return _NOT_IN_XML.sub("\ufffd", given)
