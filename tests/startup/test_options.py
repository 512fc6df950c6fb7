"""Options that are read from the environment too, and times as people write them."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from router.startup.options import Duration, option


@click.command()
@option("agent", "--lease-seconds", default="15s", type=Duration(), also=("OLD_LEASE",), help="A lease.")
def command(lease_seconds: int) -> None:
    click.echo(lease_seconds)


@pytest.mark.parametrize(
    ("words", "environment", "seconds"),
    [
        ([], {}, "15"),
        ([], {"OLD_LEASE": "1m"}, "60"),
        ([], {"OLD_LEASE": "1m", "BATCHGATE_LEASE_SECONDS": "2m"}, "120"),
        ([], {"BATCHGATE_LEASE_SECONDS": "2m", "BATCHGATE_AGENT_LEASE_SECONDS": "3m"}, "180"),
        (["--lease-seconds", "1:00:00"], {"BATCHGATE_AGENT_LEASE_SECONDS": "3m"}, "3600"),
    ],
)
def test_the_nearest_word_wins(words: list[str], environment: dict[str, str], seconds: str) -> None:
    result = CliRunner().invoke(command, words, env=environment)

    assert (result.exit_code, result.output) == (0, seconds + "\n")


def test_what_is_no_time_is_a_usage_error() -> None:
    result = CliRunner().invoke(command, ["--lease-seconds", "soon"])

    assert result.exit_code == 2
    assert "Invalid value for '--lease-seconds': 'soon' is not a duration; write 5400, 1:30:00" in result.output


def test_the_help_shows_the_default_and_no_variables() -> None:
    result = CliRunner().invoke(command, ["--help"])

    assert "[default: 15s]" in result.output
    assert "BATCHGATE" not in result.output
