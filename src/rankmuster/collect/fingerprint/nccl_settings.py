"""The NCCL_* values that a process ends up with: its environment, then the files that NCCL reads itself.

NCCL src/misc/param.cc, initEnv: first NCCL_CONF_FILE, or where that is not set ~/.nccl.conf, then /etc/nccl.conf; each
sets only what is not set yet, so that the environment wins over both. Lines are `NAME=value`, `#` begins a comment
line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rankmuster.collect.node.sys_files import read_text
from rankmuster.collect.strip.environment import allowed
from rankmuster.model.unknown import Unknown

CONF_FILE = "NCCL_CONF_FILE"
MAX_BYTES = 1 << 16
"""Of one file; a real one has a dozen lines."""

MAX_SETTINGS = 512

_NAME = re.compile(r"NCCL_[A-Z0-9_]{1,100}")


def read_settings(
    root: Path, etc: Path, environ: Mapping[str, str] | Unknown, home: str | None
) -> dict[str, str] | Unknown:
    """Name -> value by name; what may be a secret is `***`, as everywhere. Unknown where the environment is.

    `root`: below which the process's files lie; `home`: its home folder as it sees it.
    """
    if isinstance(environ, Unknown):
        return environ
    found = {name: value for name, value in environ.items() if _NAME.fullmatch(name)}
    own = environ.get(CONF_FILE) or (f"{home}/.nccl.conf" if home else "")
    files = [root / own.lstrip("/")] if own.startswith("/") else []
    for file in (*files, etc / "nccl.conf"):
        for name, value in parse_conf(read_text(file, MAX_BYTES) or "").items():
            found.setdefault(name, value)
    return allowed(dict(sorted(found.items())[:MAX_SETTINGS]))


def parse_conf(text: str) -> dict[str, str]:
    """The settings of one file; of a name that stands there twice the first counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and _NAME.fullmatch(name):
            found.setdefault(name, value)
    return found
