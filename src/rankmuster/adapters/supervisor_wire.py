"""What `rankmuster run` and whoever asks it say to each other, and where its socket is.

One JSON object on one line each way, one request a connection, over a Unix socket that only its user and root may use:

    {"v": 1, "ask": "look"}
    {"v": 1, "ask": "terminate", "incarnation": "...", "operation": "...", "seconds": 30.0}
    {"v": 1, "ask": "start", "after": "...", "operation": "...", "seconds": 30.0, "wish": {"environment": {}, ...}}

    {"v": 1, "look": {"state": "running", "incarnation": "...", "pids": [...], ...}}
    {"v": 1, "answer": {"ending": "done", "note": "...", "data": {...}}}
    {"v": 1, "error": "..."}
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = 1

MAX_REQUEST = 256 << 10
"""Bytes: variables for one start are the most of it."""

MAX_ANSWER = 1 << 20
"""Bytes: `MAX_PIDS` numbers of seven digits are a tenth of it."""

MAX_PIDS = 10_000
"""Processes that are told one by one; a node of eight ranks has some hundred."""

MAX_PATH = 107
"""Bytes of a Unix socket's path: `sun_path` has 108, the last of them a NUL (unix(7))."""

MAX_SECONDS = 86_400.0

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""Of an instance, as the configuration of `incident` has it: it stands in the names of files."""

RUN = Path("/run")


class NotUnderstood(ValueError):
    """What came is no line of this; the message says why."""


def default_run_folder(environ: Mapping[str, str] | None = None, run: Path = RUN) -> Path:
    """`/run/rankmuster/run` where that may be made, else below the user's runtime or state folder."""
    environ = os.environ if environ is None else environ
    ours = run / "rankmuster"
    try:
        usable = os.access(ours if ours.exists() else run, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    if usable:
        return ours / "run"
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "rankmuster" / "run"
    state = environ.get("XDG_STATE_HOME", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    return (Path(state) if state.startswith("/") else Path(home) / ".local" / "state") / "rankmuster" / "run"


def socket_path(folder: Path, name: str) -> Path:
    """Where the supervisor of that instance listens. Raises ValueError for a name or a path that cannot be one."""
    if NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name[:80]!r} is no name of an instance: letters, digits, '.', '_' and '-', at most 63 of them, "
            "a letter or digit first"
        )
    path = Path(os.path.abspath(folder)) / f"{name}.sock"
    length = len(os.fsencode(path))
    if length > MAX_PATH:
        raise ValueError(
            f"the socket {path} has a path of {length} bytes, and Linux allows {MAX_PATH}: choose a shorter folder"
        )
    return path


def encode(value: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps({"v": VERSION, **value}, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Its object. Raises NotUnderstood."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"it is no JSON ({_shown(line)})") from error
    if not isinstance(found, dict):
        raise NotUnderstood(f"it is no JSON object ({_shown(line)})")
    if found.get("v") != VERSION:
        raise NotUnderstood(f"it is of version {str(found.get('v'))[:20]!r}, and this knows {VERSION}")
    return found


def text_of(value: Mapping[str, Any], key: str, most: int = 4096) -> str:
    """Raises NotUnderstood."""
    found = value.get(key)
    if not isinstance(found, str) or len(found) > most:
        raise NotUnderstood(f"{key!r} is not a text of at most {most} characters")
    return found


def optional_text(value: Mapping[str, Any], key: str, most: int = 4096) -> str | None:
    """Raises NotUnderstood."""
    return None if value.get(key) is None else text_of(value, key, most)


def number_of(value: Mapping[str, Any], key: str, least: float, most: float) -> float:
    """Raises NotUnderstood."""
    found = value.get(key)
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not math.isfinite(found):
        raise NotUnderstood(f"{key!r} is not a number")
    if not least <= found <= most:
        raise NotUnderstood(f"{key!r} is {found:g}, not between {least:g} and {most:g}")
    return float(found)


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))
