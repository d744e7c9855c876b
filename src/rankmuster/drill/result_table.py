"""Results of drills as a table for a screen: a line for each, and what is wrong below it."""

from __future__ import annotations

from collections.abc import Sequence


def result_table(head: Sequence[str], rows: Sequence[Sequence[str]], wrongs: Sequence[Sequence[str]]) -> list[str]:
    """Its lines, columns aligned. `wrongs`: of each row; the head has none."""
    whole = [head, *rows]
    widths = [max(len(row[column]) for row in whole) for column in range(len(head))]
    lines = []
    for row, below in zip(whole, ((), *wrongs), strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        lines += [f"    {wrong}" for wrong in below]
    return lines
