"""A drill as it goes, for people: its folder, a line for each run, and its card in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.drill_card import CardFormat, status_of, written
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.drill.card_book import About, CardBook
    from rankmuster.model.drill_run import DrillRun


def new_folder(output: Path) -> Path:
    """The folder, made. Raises CommandError when there is something in it, or it cannot be made."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        taken = any(output.iterdir())
    except OSError as error:
        raise CommandError(f"cannot make {output}: {error.strerror or error}") from error
    if taken:
        raise CommandError(f"{output} is not empty: give a new folder, so that nothing earlier is taken for a result")
    return output.resolve()


def drilled(about: About, output: Path, work: Callable[[CardBook], None]) -> int:
    """Does the work with a card, and shows it; its exit status. What ends it early leaves the card of what was done."""
    from rankmuster.cli.as_ctrl_c import as_ctrl_c
    from rankmuster.drill.card_book import CardBook
    from rankmuster.model.drill_card import CARD

    try:
        with as_ctrl_c():
            book = CardBook(about, output, tell)
            work(book)
            card = book.close()
    except KeyboardInterrupt:
        say(f"rankmuster: ended early; everything that was started has ended, and {output / CARD} says what was done")
        raise
    except OSError as error:
        raise CommandError(f"the drill broke off: {error}; {output / CARD} says what was done") from error
    write_stdout(written(card, CardFormat.TERMINAL, None))
    say(f"rankmuster: the card is {output / CARD}")
    return status_of(card)


def tell(run: DrillRun) -> None:
    """A line for one run."""
    from rankmuster.report import drill_words as words
    from rankmuster.report.inert import plain

    look = words.look_of(run)
    parts = [f"{look.terminal_sign} {run.kind.replace('_', ' ')} {run.name}: {look.word}"]
    if run.detected_seconds is not None:
        parts.append(f"told by {run.detected_by} after {run.detected_seconds:.1f} s")
    if run.said_class is not None:
        parts.append(": ".join(one for one in (run.said_class, run.said_subclass) if one))
    if run.back_seconds is not None and run.service_back:
        parts.append(f"service back after {run.back_seconds:.1f} s")
    parts += words.remarks(run)
    say(plain("; ".join(parts), 600))
