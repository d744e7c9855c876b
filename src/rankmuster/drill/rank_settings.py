"""What the communication of a job's ranks is set up with: the variables of a living rank, kept beside the run."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from rankmuster.collect.strip.environment import MASKED, allowed, without_userinfo
from rankmuster.collect.strip.shapes import looks_secret, mask_tokens
from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Kind

SETTINGS = "settings.json"
"""In the folder of a run."""
FOLDER = "FOLDER"
"""What stands in a card for the drill's folder: where that was changes nothing of how ranks talk."""
PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
"""Of the variables that say how ranks talk, and what they leave behind."""
OTHERS = frozenset(name for name in TABLE if name.startswith("TORCH_"))
"""Of torch, those more that are known: what else is named so (`TORCH_HUB_TOKEN`) says nothing of ranks."""


def settings_of(environ: bytes) -> dict[str, str]:
    """Those variables of `/proc/PID/environ`, by name; `***` for a value that may be a secret, as in a bundle."""
    found = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "backslashreplace").partition("=")
        if equals and (name.startswith(PREFIXES) or name in OTHERS):
            found[name] = _shown(name, value)
    return dict(sorted(found.items()))


def _shown(name: str, value: str) -> str:
    """The value as it may be written down. In the name of a folder a start has its time and a random word, which are
    no secret."""
    row = TABLE.get(name)
    if row is not None and row.kind is Kind.PREFIX and value.startswith("/"):
        return mask_tokens(value)
    shown = allowed({name: value}).get(name)
    if shown is not None:
        return shown
    return MASKED if looks_secret(value) else without_userinfo(value)


def keep(pid: int, folder: Path) -> None:
    """Writes those of a living process into `folder`. One that is gone leaves nothing."""
    with suppress(OSError):
        (folder / SETTINGS).write_text(json.dumps(settings_of(Path(f"/proc/{pid}/environ").read_bytes())) + "\n")


def kept(folder: Path) -> dict[str, str]:
    """What was kept of the first run below `folder`, in the order of their names, with `FOLDER` for `folder` in the
    values; empty where none was."""
    home = str(folder.resolve())
    for path in sorted(folder.glob(f"*/{SETTINGS}")):
        with suppress(OSError, ValueError):
            plain = json.loads(path.read_bytes())
            if isinstance(plain, dict):
                return {str(name): str(value).replace(home, FOLDER) for name, value in plain.items()}
    return {}
