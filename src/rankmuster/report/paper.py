"""A console for foreign text: inert, in the console's own encoding, wrapped with hanging indents."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankmuster.report.inert import plain

MIN_ROOM = 20
"""Columns that a text gets beside its head, even on a console too narrow for both."""


class Paper:
    """A console that takes foreign text: inert, and in the console's own encoding."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._encoding = console.encoding or "utf-8"

    def text(self, words: object, style: str = "") -> Text:
        shown = plain(words).encode(self._encoding, "backslashreplace").decode(self._encoding)
        return Text(shown, style=style)

    def line(self, *parts: Text, indent: int = 0, whole: bool = False) -> None:
        """One paragraph; `whole`: in a pipe or a file a single line however long, so that `head -1` has all of it."""
        joined = Text(" ").join(parts)
        if whole and not self._console.is_terminal:
            self._console.print(joined, soft_wrap=True, highlight=False)
        else:
            self._hang(Text(" " * indent), joined)

    def item(self, sign: str, *parts: Text, style: str = "") -> None:
        """A list item with a hanging indent."""
        self._hang(Text(f"{sign:>3} ", style=style), Text(" ").join(parts))

    def listing(self, heading: str, lines: Sequence[str], sign: str, most: int) -> None:
        """A heading and a list of `most` items at most, the rest counted; nothing of an empty list."""
        if not lines:
            return
        self.heading(heading)
        for line in lines[:most]:
            self.item(sign, self.text(line))
        if len(lines) > most:
            self.line(self.text(f"and {len(lines) - most:,} more; JSON has them", "dim"), indent=4)

    def entry(self, columns: Sequence[tuple[Text, int]], words: Text) -> None:
        """A line of a list with columns of fixed width before its words."""
        head = Text()
        for cell, width in columns:
            head.append_text(cell)
            head.append(" " * max(1, width + 1 - cell.cell_len))
        self._hang(head, words)

    def _hang(self, head: Text, words: Text) -> None:
        # wrapped here rather than by a grid, which pads every line to the full width: pipes and diffs see that
        room = max(self._console.width - head.cell_len, MIN_ROOM)
        for number, part in enumerate(words.wrap(self._console, room) or [Text()]):
            part.rstrip()
            start = head if number == 0 else Text(" " * head.cell_len)
            self._console.print(start + part, soft_wrap=True, highlight=False)

    def heading(self, words: str, note: str = "") -> None:
        self._console.print()
        parts = [Text(words.upper(), style="bold")]
        if note:
            parts.append(self.text(note, "dim"))
        self.line(*parts)

    @property
    def width(self) -> int:
        """Columns."""
        return self._console.width

    def table(self, table: Table) -> None:
        self._console.print(table, highlight=False)
