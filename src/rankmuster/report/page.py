"""The shell of every HTML page the project makes: one file that needs no network, runs no script, and escapes all.

`Markup` marks what is HTML already; everything else that reaches a page goes through `text`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import NewType

from rankmuster.report import theme
from rankmuster.report.inert import MAX_TEXT, plain

Markup = NewType("Markup", str)

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and nothing runs, even if a hostile text got through the escaping."""

_CODE = re.compile(r"`([^`]+)`")


def text(words: object, limit: int = MAX_TEXT) -> Markup:
    """Foreign or own words as inert, escaped HTML text, fit for attribute values too."""
    return Markup(html.escape(plain(words, limit), quote=True))


def prose(words: object) -> Markup:
    """Like `text`, with `back quotes` set as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", text(words)))


def join(parts: Iterable[Markup], between: str = "\n") -> Markup:
    """Several pieces of HTML as one."""
    return Markup(between.join(parts))


def mark(look: theme.Look) -> Markup:
    """A role or state as sign and word in its colour."""
    return Markup(f'<span class="mark tone-{look.tone}">{text(look.sign)} {text(look.word)}</span>')


def link(target: str, words: object) -> Markup:
    """A link within the page."""
    return Markup(f'<a href="#{text(target)}">{text(words)}</a>')


def items(lines: Sequence[Markup], ordered: bool = False) -> Markup:
    """A list; nothing for no lines."""
    if not lines:
        return Markup("")
    tag = "ol" if ordered else "ul"
    return Markup(f"<{tag}>{''.join(f'<li>{line}</li>' for line in lines)}</{tag}>")


def scroll(label: str, body: Markup) -> Markup:
    """Something wide in a box that scrolls sideways, by keyboard too."""
    return Markup(f'<div class="scroll" role="region" tabindex="0" aria-label="{text(label)}">{body}</div>')


def page(title: str, body: Markup) -> str:
    """A whole document around `body`."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY, quote=True)}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title, 200)}</title>\n<style>\n{theme.css()}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )
