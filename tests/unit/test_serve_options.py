"""The options of the serve command: one per setting, on the command line and in the environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from opwire_service.cli.serve import parse_settings, with_options
from opwire_service.settings import Limits, Settings

RUN = CliRunner()


def settings(*arguments: str, env: dict[str, str] | None = None) -> Settings:
    """Returns the settings for a command line and an environment."""
    found: list[Settings] = []

    def take(**given: Any) -> None:
        found.append(parse_settings(given))

    app = typer.Typer(add_completion=False)
    app.command()(with_options(take))
    done = RUN.invoke(app, list(arguments), env=env)
    if done.exit_code:
        raise ValueError(done.output)
    return found[0]


def test_settings_have_defaults():
    assert settings() == Settings()


@pytest.mark.parametrize("limit", [each.name for each in dataclasses.fields(Limits)])
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
