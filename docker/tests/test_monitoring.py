"""Prometheus with the committed configuration: its targets, its alerts, and every query of the dashboard."""

from __future__ import annotations

import contextlib
import math

import httpx
import numpy as np
import pytest
from deployment import GRAFANA, Deployment, expressions, pulled
from engine import FOLDER, docker, run, wait_for
from load import Load

from opwire import Client, prepare
from opwire.errors import OpwireError

QUERIES = expressions()


def promtool(deployed: Deployment, *arguments: str) -> str:
    """Runs promtool on the committed files, in the image of the deployment."""
    mounted = ("-v", f"{FOLDER}/prometheus:/rules:ro", "-w", "/rules", "--entrypoint", "promtool")
    return docker("run", "--rm", *mounted, deployed.env["PROMETHEUS_IMAGE"], *arguments)


def test_configuration(deployed: Deployment):
    assert "SUCCESS" in promtool(deployed, "check", "config", "--syntax-only", "prometheus.yml")


def test_alerts(deployed: Deployment):
    """Each alert fires when it should and not before; the cases are in alerts_test.yml."""
    assert "SUCCESS" in promtool(deployed, "test", "rules", "alerts_test.yml")


@pytest.fixture(scope="module")
def loaded(deployed: Deployment) -> Deployment:
    """Waits until Prometheus has scraped all servers while they answer, refuse, and process batches."""
    with Load(deployed.balancer, threads=2) as load, Client(deployed.balancer) as client:
        wait_for(lambda: asked(client) and complete(deployed), 120, lambda: missing(deployed))
        load.wait_answers(1)
    assert load.failures == []
    return deployed


def asked(client: Client) -> bool:
    """Sends what the load lacks: a request that is refused, and a batch."""
    array = np.ones((1, 2), np.float32)
    call = prepare.argmax(array, axes=[1])
    client.execute_many([call, call])
    with contextlib.suppress(OpwireError):
        client.execute({"type": "ARGMAX", "desc": {}}, array)
    return True


def data(deployed: Deployment, expr: str) -> list[float]:
    """Returns the current values of a query."""
    result = deployed.prometheus("query", query=expr)["result"]
    return [float(each["value"][1]) for each in result if not math.isnan(float(each["value"][1]))]


def missing(deployed: Deployment) -> list[str]:
    return [name for name, expr in QUERIES.items() if not data(deployed, expr)]


def complete(deployed: Deployment) -> bool:
    return len(deployed.up()) == 3 and not missing(deployed)


def test_every_server_is_read(loaded: Deployment):
    assert len(loaded.up()) == len(loaded.containers("opwire")) + len(loaded.containers("replica")) == 3


@pytest.mark.parametrize("name", QUERIES)
def test_query_has_data(loaded: Deployment, name):
    assert data(loaded, QUERIES[name])


def test_variables_have_values(loaded: Deployment):
    assert len(loaded.prometheus("label/instance/values", **{"match[]": "opwire_info"})) >= 3
    assert "REDUCE" in loaded.prometheus("label/operator/values", **{"match[]": "opwire_operator_seconds_count"})


def test_rules_are_evaluated(loaded: Deployment):
    rules = [rule for group in loaded.prometheus("rules")["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        assert rule["health"] == "ok", rule
        assert rule["annotations"]["action"].endswith(".")


def test_dashboard_is_as_generated():
    made = run("python3", str(FOLDER / "grafana/dashboard.py")).stdout
    assert made == (FOLDER / "grafana/dashboards/opwire.json").read_text(encoding="utf-8")


def test_grafana_shows_the_dashboard(loaded: Deployment):
    if not pulled(GRAFANA):
        pytest.skip(f"{GRAFANA} cannot be pulled here: Grafana itself was not run")
    loaded.compose("up", "-d", "--no-deps", "grafana")
    url = loaded.url("GRAFANA_PORT")
    wait_for(lambda: httpx.get(f"{url}/api/health", timeout=5).is_success, 60)
    board = httpx.get(f"{url}/api/dashboards/uid/opwire", timeout=10).json()["dashboard"]
    assert len(board["panels"]) > len(QUERIES) / 2
