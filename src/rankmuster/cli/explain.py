"""`rankmuster explain`: what a word of a verdict means, and what to do about it."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import write_stdout
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankmuster.diagnose.catalogue_entry import Entry
    from rankmuster.diagnose.catalogue_words import Word
    from rankmuster.model.fault import FaultClass, Subkind

WIDEST = 110  # columns; longer lines are hard to read
NARROWEST = 40


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A sub-kind, a class, or a word of progress, confidence, boundary or role.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Explain a word of a verdict: what it means, how it is told apart, what to do and what not to do.

    Without NAME, lists everything that can be explained, with one line each.
    """
    with doing("explaining " + (name or "everything")):
        write_stdout("\n".join(_everything() if name is None else _one(name)) + "\n")
    return 0


def _everything() -> list[str]:
    from rankmuster.diagnose.catalogue import ENTRIES
    from rankmuster.diagnose.catalogue_words import CLASSES, FIELDS, WORDS
    from rankmuster.model.fault import SUBKINDS

    lines: list[str] = []
    for class_, subkinds in SUBKINDS.items():
        lines += [_short(class_.value, CLASSES[class_], indent=0)]
        lines += [_short(subkind.value, ENTRIES[subkind].meaning, indent=2) for subkind in subkinds]
    for field in FIELDS:
        words = [word for word in WORDS if word.kind == field and field != "class"]
        lines += ["", f"{field}:"] if words else []
        lines += [_short(word.name, word.meaning, indent=2) for word in words]
    return lines


def _one(name: str) -> list[str]:
    from rankmuster.diagnose.catalogue import close_names, entry_of, words_of

    entry, words = entry_of(name), words_of(name)
    if entry is not None:
        return _entry(entry)
    if words:
        return _words(name, words)
    near = close_names(name)
    hint = f"did you mean {', '.join(near)}?" if near else "`rankmuster explain` lists all names."
    raise CommandError(f"nothing is known by the name {name!r}; {hint}")


def _entry(entry: Entry) -> list[str]:
    from rankmuster.model.fault import CLASS_OF

    class_ = CLASS_OF[entry.subkind]
    lines = [f"{class_.value}/{entry.subkind.value}", "", *_wrap(entry.meaning)]
    lines += _section("How it is told apart", (f"{other.value}: {how}" for other, how in entry.told_apart))
    lines += _section("Planes that see it", (f"{plane.value}: {what}" for plane, what in entry.seen_by))
    lines += _section("Planes that are blind to it", (f"{plane.value}: {why}" for plane, why in entry.blind))
    lines += _section("Typical causes", entry.causes)
    lines += _recovery(class_, entry.subkind)
    lines += _section("May the time-out be raised?", [entry.timeout], "  ", "  ")
    lines += ["", "Commands to look further", *(f"    {command}" for command in entry.look_further)]
    return lines


def _words(name: str, words: tuple[Word, ...]) -> list[str]:
    from rankmuster.diagnose.catalogue import ENTRIES, canonical
    from rankmuster.diagnose.catalogue_words import FIELDS
    from rankmuster.model.fault import SUBKINDS, FaultClass

    field = canonical(name).replace("_", " ")
    if words[0].name != canonical(name):
        return [field, "", *_wrap(FIELDS[field]), "", *(_short(word.name, word.meaning, indent=2) for word in words)]
    lines: list[str] = []
    for word in words:
        lines += [*([""] if lines else []), f"{word.name} ({word.kind})", "", *_wrap(word.meaning)]
        if word.kind == "class":
            class_ = FaultClass(word.name)
            subkinds = [_short(sub.value, ENTRIES[sub].meaning, indent=2) for sub in SUBKINDS[class_]]
            lines += ["", "Sub-kinds", *subkinds] if subkinds else []
            lines += _recovery(class_, None)
    return lines


def _recovery(class_: FaultClass, subkind: Subkind | None) -> list[str]:
    from rankmuster.diagnose.recovery import recovery_for

    row = recovery_for(class_, subkind)
    steps = [f"{number}. {step}" for number, step in enumerate(row.steps, 1)]
    return [
        "",
        f"Recovery boundary: {row.boundary.value}",
        *_section("What to do, in this order", steps, "  ", "     "),
        *_section("What not to do", row.do_not),
    ]


def _columns() -> int:
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def _wrap(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text, _columns(), initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _section(title: str, items: Iterable[str], first: str = "  - ", rest: str = "    ") -> list[str]:
    lines = [line for item in items for line in _wrap(item, first, rest)]
    return ["", title, *lines] if lines else []


def _short(name: str, text: str, *, indent: int) -> str:
    """One line: the name, and as much of the first sentence as the screen holds."""
    sentence = text.split(". ")[0].rstrip(".")
    start = f"{' ' * indent}{name:<{26 - indent}}"
    return start + textwrap.shorten(sentence, max(20, _columns() - len(start)), placeholder=" …")
