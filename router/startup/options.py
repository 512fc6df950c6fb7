"""Options of the commands that run for long: times as people write them, and values from the environment.

Knows click, and neither what an option is for nor where its value goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from router.notation import durations

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[int]):
    """Seconds, from what people write for a time."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it; a usage error where it is none."""
        if isinstance(value, int):
            return value
        try:
            return durations.seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def option(program: str, name: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option that is also read from BATCHGATE_PROGRAM_NAME and, where that is not set, from BATCHGATE_NAME.

    ``also`` names further variables, which are asked last. Everything else is click's.
    """
    shouted = name.removeprefix("--").replace("-", "_").upper()
    attributes.setdefault("show_default", True)
    variables = [f"BATCHGATE_{program.upper()}_{shouted}", f"BATCHGATE_{shouted}", *attributes.pop("also", ())]
    return click.option(name, envvar=variables, show_envvar=False, **attributes)
