"""`rankmuster top`: what the watch on this node sees, live in a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import write_stdout
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from rankmuster.watch.export.state_file import Freshness
    from rankmuster.watch.snapshot import Snapshot

INTERVAL_SECONDS = 1.0
"""Between two frames: the state changes with each look of the watch, every 5 s by default, and ages every second."""

WIDTH, HEIGHT = 100, 24
"""Where there is no terminal that says its own."""

END_KEYS = (b"q", b"Q", b"\x03", b"\x04")
"""q; Ctrl-C and Ctrl-D, where they come as characters."""


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame and end; so it does without a terminal.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FOLDER", help="Where the watch keeps its state, if it was told where."),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, max=60.0, help="Seconds between two frames.")
    ] = INTERVAL_SECONDS,
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="NAME", help="Only this instance, in full.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; the same as NO_COLOR=1.")] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show what `rankmuster watch` on this node sees: instances, ranks, who spins, who waits, and the last stop.

    It reads the watch's state file and asks nobody. q or Ctrl-C ends it.

    Exit status, with --once: 0 every instance advances, is idle, starts or drains, 1 one has stopped or is slow,
    2 nobody can tell (an instance is unknown, none is known, or the watch is stale), 3 there is no state file.
    """
    with doing("loading the program"):
        import rankmuster.watch.view.frame  # noqa: F401  # said here if it is broken, not in the first frame
    color = not no_color and not os.environ.get("NO_COLOR") and sys.stdout.isatty()
    live = not once and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    with doing("showing the state of the watch"):
        return _live(state, instance, interval, color) if live else _once(state, instance, color)


def _read(state: Path | None, instance: str | None) -> tuple[Snapshot, Freshness]:
    """The state, of one instance only where one is named. Raises CommandError."""
    from rankmuster.watch.export.state_file import NoState, StateRefused, found_state_folder, freshness, read_state

    try:
        snapshot = read_state(state if state is not None else found_state_folder())
    except (NoState, StateRefused) as error:
        raise CommandError(str(error)) from error
    fresh = freshness(snapshot, time.time())
    if instance is None:
        return snapshot, fresh
    chosen = tuple(one for one in snapshot.instances if one.name == instance)
    if not chosen:
        there = ", ".join(one.name for one in snapshot.instances[:20]) or "none at all"
        raise CommandError(f"the watch knows no instance {instance!r}; there is {there}")
    return replace(snapshot, instances=chosen), fresh


def _console(color: bool, file: io.TextIOBase | None = None, width: int | None = None) -> Console:
    from rich.console import Console

    return Console(
        file=file,  # type: ignore[arg-type]
        width=width,
        force_terminal=color if file is not None else None,
        no_color=not color,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )


def _once(state: Path | None, instance: str | None, color: bool) -> int:
    from rankmuster.watch.view.frame import NARROWEST, render
    from rankmuster.watch.view.judge import judge

    snapshot, fresh = _read(state, instance)
    width = max(shutil.get_terminal_size((WIDTH, HEIGHT)).columns, NARROWEST)
    text = io.StringIO()
    _console(color, text, width).print(render(snapshot, fresh, width))
    write_stdout("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))
    return judge(snapshot.instances, stale=fresh.stale)


def _live(state: Path | None, instance: str | None, interval: float, color: bool) -> int:
    """Frame after frame until a key or a signal ends it; a watch that is not there, or goes, is waited for."""
    from rich.live import Live

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows escapes
    console = _console(color)
    screen = Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")
    with _ended_by_signals(), _keys() as keys, contextlib.suppress(KeyboardInterrupt), screen:
        while True:
            screen.update(_frame(state, instance, console.width), refresh=True)
            if _pressed(keys, interval):
                break
    return 0


def _frame(state: Path | None, instance: str | None, width: int) -> RenderableType:
    from rich.text import Text

    from rankmuster.report.inert import plain
    from rankmuster.watch.view.frame import render

    try:
        snapshot, fresh = _read(state, instance)
    except CommandError as error:
        return Text(f"{plain(error)}\n\nwaiting for it; q ends this", style="bold magenta")
    return render(snapshot, fresh, width)


def _pressed(keys: int | None, seconds: float) -> bool:
    """Waits; whether a key that ends it came meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if keys is None:
            time.sleep(left)
            return False
        if not select.select([keys], [], [], left)[0]:
            return False
        pressed = os.read(keys, 64)
        if not pressed or any(key in pressed for key in END_KEYS):
            return True  # nothing at all: the terminal is gone
    return False


@contextmanager
def _keys() -> Iterator[int | None]:
    """Standard input, key by key and without an echo; None where it is no terminal."""
    import termios
    import tty

    try:
        keys = sys.stdin.fileno()
        before = termios.tcgetattr(keys)
    except (AttributeError, OSError, ValueError, termios.error):
        yield None
        return
    try:
        tty.setcbreak(keys)
        yield keys
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(keys, termios.TCSADRAIN, before)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end it as Ctrl-C does, so that the terminal is left as it was."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    earlier = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
