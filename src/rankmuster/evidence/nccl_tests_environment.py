"""What may be kept of an environment that a benchmark's output holds: NCCL_* and CUDA_* values, and no secret.

`-J` writes the whole environment of the process into its file. Whatever is kept goes into a history and from there
into reports, so names are taken by prefix, and of those what is named like a secret or looks like one is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PREFIXES = ("NCCL_", "CUDA_")
MOST_VARIABLES = 256
MOST_VALUE = 512
"""Characters of a value: lists of interfaces and files' names are shorter; what is longer is left out."""

_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,80}")
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASS(?:W|PHRASE|$|_)|_PWD|CREDENTIAL|(?:API|ACCESS|PRIVATE|AUTH)_?KEY|_KEY$|BEARER"
)
_SECRET_VALUE = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:sk-|hf_|gh[pousr]_|glpat-|xox[abpr]-|nvapi-|AKIA|ASIA|eyJ[A-Za-z0-9_-]{8})|-----BEGIN"
    r"|://[^/\s]{0,200}@|(?<![A-Za-z0-9+/_-])(?=[A-Za-z+]{0,40}\d)(?=[0-9+]{0,40}[A-Za-z])[A-Za-z0-9+]{28,}"
)
_HARMLESS = re.compile(r"(?:(?:GPU|MIG)-[0-9a-fA-F-]{36}(?:/\d+/\d+)?,?)+")


def kept(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What may be kept, by name; the last of several values, as a shell has it."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if not name.startswith(PREFIXES) or not _NAME.fullmatch(name) or _SECRET_NAME.search(name):
            continue
        if len(value) > MOST_VALUE or not value.isprintable() or looks_secret(value):
            continue
        found[name] = value
        if len(found) >= MOST_VARIABLES:
            break
    return tuple(sorted(found.items()))


def looks_secret(value: str) -> bool:
    """Whether a value has the shape of a token, a key, or an address with a password."""
    return _HARMLESS.fullmatch(value) is None and _SECRET_VALUE.search(value) is not None
