"""Which devices cluster nodes have, how they are named, and which versions are compatible."""

from __future__ import annotations

from typing import Any

import pytest

from opwire_service.devices.ray.nodes import Names, Wanted, wanted

joining = pytest.importorskip("opwire_service.devices.ray.joining", reason="Ray is not installed", exc_type=ImportError)


def node(identity: str, name: str = "", *, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": identity,
        "Alive": alive,
        "NodeName": name or "10.0.0.1",
        "NodeManagerAddress": "10.0.0.1",
        "NodeManagerHostname": "host.example",
        "Resources": resources,
    }


def test_a_node_has_one_cpu_device_and_one_per_gpu():
    listed = [
        node("a", CPU=4.0),
        node("b", CPU=2.0, GPU=2.0),
        node("head", memory=1.0),
        node("gone", alive=False, CPU=1.0),
        node("going", CPU=1.0),
    ]
    assert wanted(listed, ["going"]) == [
        Wanted("a", "cpu", 4),
        Wanted("b", "cpu", 2),
        Wanted("b", "cuda:0", 0),
        Wanted("b", "cuda:1", 0),
    ]


def test_node_names_are_stable_and_unique():
    names = Names()
    names.follow(
        [node("aaaaaaaaaa", "worker 1/é"), node("bbbbbbbbbb"), node("cccccccccc"), node("dddddddddd", "x" * 200)]
    )
    assert names["aaaaaaaaaa"] == "worker-1"
    assert names["bbbbbbbbbb"] == "host.example"
    assert names["cccccccccc"] == "host.example-cccccccc"
    assert names["dddddddddd"] == "x" * 100
    # Remaining nodes keep their names, even when the first one with a name has left.
    names.follow([node("cccccccccc"), node("eeeeeeeeee")])
    assert names["cccccccccc"] == "host.example-cccccccc"
    assert names["eeeeeeeeee"] == "host.example"
    with pytest.raises(KeyError):
        names["aaaaaaaaaa"]


def test_a_returning_node_takes_over_its_old_name():
    names = Names()
    names.follow([node("aaaaaaaaaa", "worker")])
    names.follow([node("aaaaaaaaaa", "worker"), node("bbbbbbbbbb", "worker")], {"aaaaaaaaaa"})
    assert (names["aaaaaaaaaa"], names["bbbbbbbbbb"]) == ("worker-aaaaaaaa", "worker")
    # If the silent node reports again, it counts as a different one.
    names.follow([node("aaaaaaaaaa", "worker"), node("bbbbbbbbbb", "worker")])
    assert (names["aaaaaaaaaa"], names["bbbbbbbbbb"]) == ("worker-aaaaaaaa", "worker")


def test_a_cluster_with_another_ray_or_python_is_refused():
    import platform

    import ray

    major, minor, _ = platform.python_version_tuple()
    joining.compare("head:1", ray.__version__, f"{major}.{minor}.99")
    for other in ((ray.__version__, f"{major}.{int(minor) + 1}.0"), ("1.0.0", platform.python_version())):
        with pytest.raises(joining.Refused, match="install the same versions on both") as refused:
            joining.compare("head:1", *other)
        assert all(each in str(refused.value) for each in ("head:1", *other, ray.__version__))
