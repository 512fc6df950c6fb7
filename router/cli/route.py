"""``batchgate route``: prints manifests as the webhook would change them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from router.cli.judging import LEFT_ALONE, Asked, Judged, complain, judge_all, judging_options, open_gate
from router.cli.output import as_json, as_yaml, placed_back
from router.cli.table import print_table


def _routed(judged: Judged) -> object:
    """The object to print: a Job is replaced by its routed copy, other objects stay unchanged."""
    if judged.judgement is None:
        return judged.manifest.value
    return placed_back(judged.manifest.value, judged.judgement.routed, judged.root)


def _print_yaml(results: Sequence[Judged]) -> None:
    click.echo(as_yaml([_routed(judged) for judged in results]), nl=False)


def _print_json(results: Sequence[Judged]) -> None:
    objects = [_routed(judged) for judged in results]
    single = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
    click.echo(as_json(single))


def _inner(document: Any, root: str) -> dict[str, Any]:
    """The Job in a document, or the Job template of a CronJob."""
    found: dict[str, Any] = document["spec"]["jobTemplate"] if root else document
    return found


def _print_patch(results: Sequence[Judged]) -> None:
    # Imported here, as only this output needs jsonpatch.
    from router.gate import patching  # noqa: PLC0415

    entries = []
    for judged in results:
        if judged.judgement is None:
            continue
        prefix = "/" + judged.root.replace(".", "/").rstrip("/") if judged.root else ""
        # From the file as it is: the judged Job also has what the API server or the CronJob controller adds.
        operations = patching.diff(_inner(judged.manifest.value, judged.root), _inner(_routed(judged), judged.root))
        entries.append(
            {
                "object": judged.name,
                "patch": [{**operation, "path": prefix + operation["path"]} for operation in operations],
            }
        )
    click.echo(as_json(entries))


def _row(judged: Judged) -> tuple[str, ...]:
    kind = judged.manifest.value.get("kind", "") if isinstance(judged.manifest.value, Mapping) else ""
    if judged.error is not None:
        return (judged.name, str(kind), "invalid", "", "", str(judged.error))
    if judged.judgement is None:
        return (judged.name, str(kind), "unchanged", "", "", "is no Job")
    decision = judged.judgement.decision
    if decision is None:
        return (judged.name, str(kind), "unchanged", "", "", LEFT_ALONE)
    queue = f"{decision.route.queue.name} ({decision.route.site.name})" if decision.route else ""
    return (judged.name, str(kind), decision.target, queue, decision.rule, decision.reason)


def _print_rows(results: Sequence[Judged]) -> None:
    print_table(("JOB", "KIND", "TARGET", "QUEUE", "RULE", "REASON"), [_row(judged) for judged in results])


PRINTERS: Final[Mapping[str, Callable[[Sequence[Judged]], None]]] = {
    "yaml": _print_yaml,
    "json": _print_json,
    "patch": _print_patch,
    "table": _print_rows,
}


@click.command()
@judging_options
@click.option("-o", "--output", type=click.Choice(list(PRINTERS)), default="yaml", show_default=True)
def route(asked: Asked, output: str) -> None:
    """Judge the Jobs of a file and print them as the webhook would leave them.

    Objects other than Jobs pass through unchanged. A denied or invalid Job is left out and named on standard error; the
    exit code is then 1. Without --signing-key the signature is left out. Even with it, agents do not accept the output,
    which is signed before the API server fills in its defaults. So apply your own file: the webhook judges and signs
    it.

    \b
    Example:  batchgate route -f job.yaml --policy policies --user ada -o table
    """
    opened = open_gate(asked)
    results = list(judge_all(asked, opened))
    refused = {id(judged) for judged in results if complain(judged)}
    if opened.signer is None and any(judged.judgement and judged.judgement.script for judged in results):
        click.echo(
            "Warning: no --signing-key: the signature is left out, and an agent will not run these Jobs.", err=True
        )
    shown = results if output == "table" else [judged for judged in results if id(judged) not in refused]
    PRINTERS[output](shown)
    sys.exit(1 if refused else 0)
