"""Which names files may have in a bundle: such that unpacking it anywhere writes below the folder chosen, and nowhere
twice."""

from __future__ import annotations

import unicodedata

MANIFEST = "manifest.json"
MAX_PATH = 1024
"""Bytes of a path; Linux takes 4096 in all, and the folder that a bundle lies in needs some."""
MAX_PART = 255
"""Bytes of one part, as file systems take them."""
MAX_DEPTH = 16
"""Folders within folders; collectors make three."""


def objection(path: str) -> str | None:
    """Why a file of a bundle may not have this path; None when it may."""
    if not path:
        return "it has no name"
    if path.startswith("/"):
        return "its name is absolute"
    if "\\" in path or not path.isprintable():
        return "its name holds a backslash or a character that cannot be printed"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "its name leads out of the bundle, or takes a detour"
    encoded = path.encode("utf-8", "surrogateescape")
    if len(encoded) > MAX_PATH or len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_PART for part in parts):
        return "its name is too long or too deep"
    if ":" in path:
        return "its name holds a colon, which is a drive or a hidden stream on some systems"
    return None


def folded(path: str) -> str:
    """What some file system takes for the same name: without case, accents composed or not, without dots and blanks at
    the end of a part."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", path).casefold())
    return "/".join(part.rstrip(". ") for part in composed.split("/"))


def folders_of(path: str) -> list[str]:
    """The folders that a path stands in, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
