"""The KubeRay manifests: valid by Kubernetes' schemas, and consistent with each other.

The schemas of kubernetes-validate accept no unknown members. For a RayCluster they cover only the pods; its own members
are those of ray.io/v1 as documented by KubeRay, of which those in use are listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

kubernetes_validate = pytest.importorskip("kubernetes_validate")

FOLDER = ROOT / "docker" / "kuberay"
VERSION = "1.34"

CLUSTER = {"rayVersion", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec", "workerGroupSpecs"}
AUTOSCALER = {"upscalingMode", "idleTimeoutSeconds", "resources"}
HEAD = {"rayStartParams", "template"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}


def documents() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path, document


DOCUMENTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}-{document['metadata']['name']}")
    for path, document in documents()
]


def found(kind: str, name: str = "opwire") -> dict[str, Any]:
    (document,) = [each for _, each in documents() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return document


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if "RayCluster" not in str(each.id)])
def test_a_manifest_is_valid(document):
    kubernetes_validate.validate(document, VERSION, strict=True)


def groups() -> list[dict[str, Any]]:
    spec = found("RayCluster")["spec"]
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


@pytest.mark.parametrize("group", groups(), ids=lambda group: str(group.get("groupName", "head")))
def test_the_pods_of_a_ray_cluster_are_valid(group):
    pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": group["template"]}
    kubernetes_validate.validate(pod, VERSION, strict=True)
    assert all(isinstance(value, str) for value in group["rayStartParams"].values())


def test_a_ray_cluster_has_only_known_members():
    cluster = found("RayCluster")
    assert (cluster["apiVersion"], set(cluster)) == ("ray.io/v1", {"apiVersion", "kind", "metadata", "spec"})
    spec = cluster["spec"]
    assert set(spec) == CLUSTER
    assert set(spec["autoscalerOptions"]) == AUTOSCALER
    assert spec["autoscalerOptions"]["upscalingMode"] in ("Default", "Aggressive", "Conservative")
    assert set(spec["headGroupSpec"]) == HEAD
    for group in spec["workerGroupSpecs"]:
        assert set(group) == WORKERS
        assert 0 < group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def containers() -> list[dict[str, Any]]:
    pods = [group["template"]["spec"] for group in groups()]
    pods.append(found("Deployment")["spec"]["template"]["spec"])
    return [container for pod in pods for container in pod["containers"]]


def test_all_containers_have_the_same_image_and_token():
    assert len({container["image"] for container in containers()}) == 1
    tokens = [
        each["valueFrom"] for container in containers() for each in container["env"] if each["name"] == "RAY_AUTH_TOKEN"
    ]
    assert len(tokens) == len(containers())
    assert all(each == tokens[0] for each in tokens)


def test_the_head_runs_no_work_and_the_server_finds_it():
    head = found("RayCluster")["spec"]["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    (server,) = found("Deployment")["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in server["env"]}
    # KubeRay names the service of a head after its cluster.
    name = found("RayCluster")["metadata"]["name"]
    assert env["OPWIRE_RAY"] == f"{name}-head-svc:6379"
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"
    grace = found("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    hook = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert grace > int(str(env["OPWIRE_DRAIN_SECONDS"])) + hook


def test_selectors_match_the_pods_of_the_server():
    labels = found("Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        found("Deployment")["spec"]["selector"]["matchLabels"],
        found("Service")["spec"]["selector"],
        found("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        found("NetworkPolicy", "opwire-servers")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    scaled = found("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("Deployment", found("Deployment")["metadata"]["name"])


def test_the_compose_profile_has_a_head_workers_and_a_server():
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    cluster = {name: each for name, each in services.items() if each.get("profiles") == ["ray"]}
    assert set(cluster) == {"ray-head", "ray-worker", "opwire-ray"}
    assert cluster["ray-worker"]["deploy"]["replicas"] == "${OPWIRE_RAY_WORKERS:-2}"
    (head,) = cluster["ray-head"]["networks"]["ray"]["aliases"]
    assert cluster["opwire-ray"]["environment"]["OPWIRE_RAY"] == f"{head}:6379"
    assert any("8265" in port for port in cluster["ray-head"]["ports"])
