"""The command ``batchgate``.

Knows the names of the commands and how an error is shown. Each command is a module that is imported only when used, so
that ``batchgate local qsub`` does not import what only the webhook needs.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import TracebackType
from typing import Final

import click
from click.shell_completion import CompletionItem, FishComplete, ShellComplete, add_completion_class

from router import __version__
from router.errors import BatchgateError

COMMANDS: Final = {
    "agent": ("router.cli.agent", "agent", "Run the Pods of virtual nodes as batch jobs, and report them."),
    "certs": ("router.cli.certs", "certs", "Make, show and renew certificates and signing keys."),
    "demo": ("router.demo.command", "demo", "Judge the examples, run what goes to HPC, show what went where."),
    "describe": ("router.cli.describe", "describe", "Tell the whole story of one Job of a cluster."),
    "explain": ("router.cli.explain", "explain", "Say what a Job asks for, where it goes, and why."),
    "forget": ("router.cli.forget", "forget", "Take what is left of a site out of a cluster."),
    "images": ("router.cli.queues", "images", "Say which images sites have, and where an image would come from."),
    "local": ("router.local.commands", "local", "The embedded queue: a one-machine batch system to try things with."),
    "page": ("router.page.command", "page", "Show sites, queues and Jobs as a web page, with your own rights."),
    "policy": ("router.cli.policy", "policy", "Check, test, compare and apply policy files; print their schema."),
    "queues": ("router.cli.queues", "queues", "Say what a Job may ask of each queue, and as whom it would run."),
    "route": ("router.cli.route", "route", "Judge the Jobs of a file and print them as the webhook would leave them."),
    "script": ("router.cli.script", "script", "Print the batch script of a Job."),
    "site": ("router.cli.site", "site", "Check that a site can do what Jobs need, with probe jobs."),
    "status": ("router.cli.status", "status", "Say how queues and Jobs of a cluster are, and what is stuck."),
    "uninstall": ("router.cli.uninstall", "uninstall", "Take Batchgate off a cluster, if nothing routed lives."),
    "version": ("router.cli.version", "version", "Say which release this is, and what is in it."),
    "webhook": ("router.webhook.command", "webhook", "Serve admission reviews."),
}


_SELDOM: Final = 10_000
_INTERRUPTED: Final = 130
"""128 plus the number of SIGINT, as in shells."""


class _Unusable(click.ClickException):
    """A configuration, policy or input error, as click shows it."""

    exit_code = 2


@add_completion_class
class _Fish(FishComplete):
    """click's completion for fish, without its fault of cutting each description at the first comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Every command, in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above is wrong otherwise
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without importing them, and the group's options."""
        found = [
            CompletionItem(name, help=COMMANDS[name][2]) for name in sorted(COMMANDS) if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; every BatchgateError becomes one message and exit code 2."""
        try:
            return super().invoke(ctx)
        except BatchgateError as error:
            raise _Unusable(str(error)) from error
        except KeyboardInterrupt:
            raise SystemExit(_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of a pipe has ended (`| head`), which is no error; further output is dropped.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        except OSError as error:
            raise _Unusable(f"{error.filename or 'output'}: {error.strerror}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="batchgate", message="%(prog)s %(version)s")
def commands() -> None:
    """Batchgate: a gate for batch work in Kubernetes.

    Ordinary Jobs stay in the cloud or run on HPC, by the policy files of the cluster's admins.

    \b
    Try:  batchgate route -f examples/02-large-goes-to-hpc/job.yaml --policy examples/policies --user ada -o table
          batchgate explain -f examples/02-large-goes-to-hpc/job.yaml --policy examples/policies --user ada

    \b
    Exit codes: 0 done, 1 a Job denied or invalid or a test failed, 2 usage, configuration or policy.
    Shell completion: eval "$(_BATCHGATE_COMPLETE=bash_source batchgate)"
    """


def kubectl() -> None:
    """Run the command line as kubectl's plugin ``kubectl batchgate``, which kubectl finds by the program's name."""
    main("kubectl batchgate")


def kubectl_complete() -> None:
    """Print completions for kubectl, which asks a program of this name for those of the plugin.

    The arguments are the words so far, the last of them incomplete. A line is a word, a tab and its description; the
    last line is a directive of cobra: 4 forbids file names, 0 allows them (pkg.go.dev/github.com/spf13/cobra,
    ShellCompDirective).
    """
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, "kubectl batchgate", "").get_completions(words, incomplete)
    for one in found:
        if one.type == "plain":
            click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(f":{4 if all(one.type == 'plain' for one in found) else 0}")


def main(called: str = "batchgate") -> None:
    """Run the command line.

    :param called: what its help calls the program
    """
    sys.excepthook = _show_bug
    # Objects made while modules load stay; repeated garbage collection of them takes a tenth of a short command's time.
    gc.set_threshold(_SELDOM)
    # Stops pydantic from searching all installed packages for plug-ins; this project has none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    commands.main(prog_name=called)


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an unforeseen error: one line, and how to get the traceback."""
    if os.environ.get("BATCHGATE_DEBUG"):
        sys.__excepthook__(kind, error, trace)
        return
    click.echo(f"Error: {kind.__name__}: {error}: a bug in Batchgate. BATCHGATE_DEBUG=1 shows where.", err=True)
