"""The console script: parses arguments, runs one command, and turns every outcome into an exit status.

typer's own `standalone_mode` is not used. It exits with 2 for bad usage, which here means "the evidence does not
decide", and with 1 for a broken pipe, which here means "a fault was found".
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from rankmuster import __version__
from rankmuster.cli.commands import add_commands
from rankmuster.cli.output import leave_stdout, say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, InternalError

DEBUG_VARIABLE = "RANKMUSTER_DEBUG"

app = typer.Typer(
    name="rankmuster",
    help="Calls the roll of every rank: who is missing, who fell out of step, and what must be rebuilt.",
    no_args_is_help=True,
    add_completion=False,
    # rich's help and tracebacks cost a third of the start-up time
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def whole_app() -> typer.Typer:
    """The command line with all its commands."""
    add_commands(app, ())
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        write_stdout(f"rankmuster {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # its callback answers
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def run() -> NoReturn:
    """Entry point of the `rankmuster` script; ends the process with an `ExitStatus`."""
    _open_missing_streams()
    sys.exit(int(status_of(sys.argv[1:])))


def _open_missing_streams() -> None:
    """A process started with a closed stream (`>&-`): what is written there goes nowhere, and nothing else is opened in
    its place. It stays so for what this process becomes or starts."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # lives as long as we do


def status_of(arguments: list[str]) -> int:
    """Runs one command line and returns its exit status; whatever goes wrong is one line on standard error."""
    try:
        add_commands(app, arguments)
        status = get_command(app).main(args=list(arguments), prog_name="rankmuster", standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except (KeyboardInterrupt, typer.Abort):
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        leave_stdout()
        return ExitStatus.NO_ANSWER
    except SystemExit as error:  # typer ends the process itself when a pipe breaks under its help
        leave_stdout()
        return ExitStatus.HEALTHY if error.code in (None, 0) else ExitStatus.NO_ANSWER
    except CommandError as error:
        say(f"rankmuster: {_inert(str(error))}")
    except InternalError as error:
        _report_bug(error.__cause__ or error, error.doing, arguments)
    except OSError as error:  # the help itself could not be written; commands speak for their own files
        say(f"rankmuster: {error.strerror or error}")
        leave_stdout()
    except Exception as error:
        if not _is_usage_error(error):
            _report_bug(error, "running the command", arguments)
        else:
            error.show()  # type: ignore[attr-defined]
    return ExitStatus.NO_ANSWER


def _is_usage_error(error: Exception) -> bool:
    """Whether the command-line library itself found fault with the arguments.

    By name: newer versions of typer bring their own copy of click, older ones use the installed one.
    """
    return any(base.__name__ == "ClickException" for base in type(error).__mro__)


def _inert(text: str) -> str:
    """On one line, and without the control characters that a path or a message from the evidence may carry."""
    from rankmuster.report.inert import plain

    return plain(text)  # what to do stands at the end of a message


def _report_bug(error: BaseException, doing: str, arguments: list[str]) -> None:
    say(
        f"rankmuster: internal error while {_inert(doing)}: {type(error).__name__}: {_inert(str(error))} "
        f"(a bug in rankmuster, no verdict was reached; run again with --debug or {DEBUG_VARIABLE}=1 and report it)"
    )
    if "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        say("".join(traceback.format_exception(error)).rstrip())


if __name__ == "__main__":
    run()
