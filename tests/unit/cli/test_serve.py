"""The options of the serve command: one per setting, on the command line and in the environment."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from opwire_service.cli.serve import parse_settings, refuse_misspelled, with_options
from opwire_service.settings import Limits, Settings
from tests.support.paths import ROOT

RUN = CliRunner()


def settings(*arguments: str, env: dict[str, str] | None = None) -> Settings:
    """Returns the settings for a command line and an environment."""
    found: list[Settings] = []

    def take(**given: Any) -> None:
        found.append(parse_settings(given))

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(with_options(take))
    done = RUN.invoke(app, list(arguments), env=env)
    if done.exit_code:
        raise ValueError(done.output)
    return found[0]


MIB = 2**20


def test_settings_have_defaults():
    assert settings() == Settings()


@pytest.mark.parametrize("limit", [each.name for each in dataclasses.fields(Limits) if each.name != "memory_bytes"])
def test_each_limit_has_an_option_and_a_variable(limit):
    expected = Settings(limits=dataclasses.replace(Limits(), **{limit: 7}))
    assert settings(f"--{limit.replace('_', '-')}", "7") == expected
    assert settings(env={f"OPWIRE_{limit.upper()}": "7"}) == expected
    with pytest.raises(ValueError, match="Invalid value"):
        settings(f"--{limit.replace('_', '-')}", "-1")


def test_other_options_are_read():
    given = settings(
        *("--port", "0", "--device", "reference", "--threads", "3", "--workers", "2", "--log-format", "json"),
        *("--metrics-open", "--cors-origin", "http://a", "--cors-origin", "http://b", "--hang-seconds", "9"),
        env={"OPWIRE_HOST": "0.0.0.0", "OPWIRE_DRAIN_SECONDS": "4", "OPWIRE_CACHED_PLANS": "5"},
    )
    assert given == Settings(
        host="0.0.0.0",
        port=0,
        devices=("reference",),
        threads=3,
        workers=2,
        hang_seconds=9,
        drain_seconds=4,
        log_format="json",
        cached_plans=5,
        metrics_open=True,
        cors_origins=("http://a", "http://b"),
    )
    assert settings(env={"OPWIRE_DEVICE": "reference cpu"}).devices == ("reference", "cpu")


def test_every_other_setting_has_an_option():
    names = {each.name for each in (*dataclasses.fields(Settings), *dataclasses.fields(Limits))} - {"limits"}
    assert set(with_options(lambda: None).__annotations__) == names


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("300000000", 300_000_000),
        ("512M", 512 * MIB),
        ("512m", 512 * MIB),
        ("512MiB", 512 * MIB),
        ("512MB", 512_000_000),
        ("2GiB", 2048 * MIB),
        ("2 GB", 2_000_000_000),
        ("1.5G", 1536 * MIB),
        ("1TiB", 2**40),
        ("524288K", 512 * MIB),
        ("300000000B", 300_000_000),
    ],
)
def test_sizes_may_have_units(given, expected):
    limits = dataclasses.replace(Limits(), memory_bytes=expected)
    assert settings("--memory-bytes", given) == Settings(limits=limits)
    assert settings(env={"OPWIRE_MEMORY_BYTES": given}) == Settings(limits=limits)


@pytest.mark.parametrize("given", ["", "M", "-1", "0", "1e9", "2XB", "512Mi", "0x10", "1.3B", "1_000", "2 G iB", "inf"])
def test_what_is_no_size_is_refused_with_the_option_and_its_variable(given):
    with pytest.raises(ValueError, match=r"'--body-bytes' \(env var: 'OPWIRE_BODY_BYTES'\)") as said:
        settings(f"--body-bytes={given}")
    assert "is not a" in str(said.value) or "range" in str(said.value)


@pytest.mark.parametrize(
    ("arguments", "least"),
    [
        (["--memory-bytes", "1"], "256MiB"),
        (["--memory-bytes", "255M"], "256MiB"),
        (["--memory-bytes", "1G", "--body-bytes", "64M", "--output-bytes", "2G", "--workers", "4"], "2GiB"),
    ],
)
def test_memory_for_less_than_one_request_is_refused_with_the_least_that_works(arguments, least):
    with pytest.raises(ValueError, match=f"give at least {least}") as said:
        settings(*arguments)
    assert "OPWIRE_MEMORY_BYTES" in str(said.value)
    assert settings(*arguments, "--memory-bytes", least).limits.memory_bytes


def test_any_number_of_workers_starts_with_the_default_limits():
    assert settings("--workers", "64").workers == 64


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OPWIRE_WORKER", "OPWIRE_WORKERS"),
        ("OPWIRE_DEVICES", "OPWIRE_DEVICE"),
        ("OPWIRE_API_KEY_FILE", "OPWIRE_API_KEYS_FILE"),
        ("OPWIRE_MEMORYBYTES", "OPWIRE_MEMORY_BYTES"),
    ],
)
def test_a_misspelled_variable_is_refused_with_a_suggestion(name, meant):
    with pytest.raises(typer.BadParameter, match=rf"did you mean {meant}\?") as said:
        refuse_misspelled({name: "3"})
    assert said.value.param_hint == f"'{name}'"


def test_variables_of_other_programs_are_left_alone():
    """Those that Kubernetes sets for a service called opwire, and those of the Docker deployment and of clients."""
    port = [f"OPWIRE_PORT_8000_TCP{end}" for end in ("", "_ADDR", "_PORT", "_PROTO")]
    service = ["OPWIRE_SERVICE_HOST", "OPWIRE_SERVICE_PORT", "OPWIRE_SERVICE_PORT_HTTP"]
    docker = re.findall("OPWIRE_[A-Z_]+", (ROOT / "docker" / ".env.example").read_text())
    assert docker
    refuse_misspelled(
        [*port, *service, *docker, "OPWIRE_API_KEY", "OPWIRE_URL", "OPWIRE_KERNEL_CACHE", "OPWIRED", "PATH"]
    )
