"""A group of commands called in this process, as its console script would call it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer.main import get_command

from rankmuster.cli.status import CommandError, ExitStatus

Run = Callable[..., tuple[int, str, str]]
"""Of a command's words: its exit status, standard output, and standard error or the refusal."""


def runner(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> Run:
    """What runs a command of `app`; a CommandError is its status and its words."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            status = get_command(app).main(args=[str(a) for a in arguments], standalone_mode=False)
        except CommandError as error:
            capsys.readouterr()
            return int(ExitStatus.NO_ANSWER), "", str(error)
        out = capsys.readouterr()
        return int(status or 0), out.out, out.err

    return run
