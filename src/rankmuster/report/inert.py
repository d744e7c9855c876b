"""Foreign text made inert: host names, paths and log lines come from failing machines and must not act.

What a terminal would obey (ANSI, control characters, text direction) becomes visible escapes. Markup of HTML and rich
is the writer's concern: the one escapes, the other prints `rich.text.Text`, which has no markup.
"""

from __future__ import annotations

import re

from rankmuster.evidence.text import clean

MAX_TEXT = 2_000
"""Characters of one foreign text shown: a statement is a sentence or two, a broken log line can be megabytes."""

_BREAKS = re.compile(r"[ \t\r\n\v\f]+")
# C0, DEL, C1, zero-width and direction marks, line separators, lone surrogates (undecodable file names)
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def plain(text: object, limit: int = MAX_TEXT) -> str:
    """`text` on one line, without ANSI, with every acting character as a visible escape, cut at `limit` characters."""
    line = str(text)
    cut = len(line) > limit
    line = _ACTING.sub(_visible, _BREAKS.sub(" ", clean(line[:limit]))).strip()
    return f"{line} [cut]" if cut else line


_COMMAND = re.compile(r"::(?=[A-Za-z-]+[ :])|##(?=\[)")
"""How CI systems take commands from what a job prints: `::error::`, `##[error]`, `##vso[...]`."""


def inert(text: object, limit: int = MAX_TEXT) -> str:
    """As `plain`, for what a CI system reads as well: its commands are broken by a blank."""
    return _COMMAND.sub(lambda found: f"{found.group()[0]} {found.group()[1]}", plain(text, limit)).replace(
        "##vso", "# #vso"
    )
