"""Foreign text in XML 1.0: escaped, and without what it allows nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from rankmuster.report.inert import plain

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 allows nowhere, not even escaped (`Char` of its specification)."""


def text(lines: Iterable[str]) -> str:
    """Between tags, a line each: what breaks a line within one of them does not."""
    return escape(_NO_XML.sub("", "\n".join(plain(line) for line in lines)))


def quoted(words: object) -> str:
    """As an attribute's value, with its quotes."""
    return quoteattr(_NO_XML.sub("", plain(words)))


def counted(number: int) -> str:
    """A whole number as an attribute's value."""
    return f'"{int(number)}"'
