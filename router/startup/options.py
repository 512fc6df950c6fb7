"""Options of the long-running commands: times as people write them, and values from the environment.

Depends only on click; the meaning of an option is its caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from router.notation import durations

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[int]):
    """An option's type: a time as people write it, read as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a time; fails with a usage error if it is invalid."""
        if isinstance(value, int):
            return value
        try:
            return durations.seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Number(click.FloatRange):
    """An option's type: a number within bounds, where click would also take NaN, with which no bound compares."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it; fails with a usage error."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is no number, and it needs one such as 2", param, ctx)
        return found


def option(program: str, name: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option that is also read from BATCHGATE_PROGRAM_NAME or, if that is unset, from BATCHGATE_NAME.

    ``also`` names further variables, which come last. All other attributes are click's.
    """
    shouted = name.removeprefix("--").replace("-", "_").upper()
    attributes.setdefault("show_default", True)
    variables = [f"BATCHGATE_{program.upper()}_{shouted}", f"BATCHGATE_{shouted}", *attributes.pop("also", ())]
    return click.option(name, envvar=variables, show_envvar=False, **attributes)
