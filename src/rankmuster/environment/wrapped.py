"""Text of an answer in lines, whose later ones hang below the first."""

from __future__ import annotations

import textwrap

WIDEST = 110
"""Columns; longer lines are hard to read."""
NARROWEST = 40
"""Columns; on a narrower screen the terminal itself breaks lines, since names of variables are not cut."""


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """Lines of at most `width` columns, the first behind `indent`; a longer word stays whole, to be copied."""
    return textwrap.wrap(
        text,
        max(width, NARROWEST),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
