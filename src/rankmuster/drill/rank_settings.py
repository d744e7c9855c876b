"""What the communication of a job's ranks is set up with: the variables of a living rank, kept beside the run."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

SETTINGS = "settings.json"
"""In the folder of a run."""
FOLDER = "FOLDER"
"""What stands in a card for the drill's folder: where that was changes nothing of how ranks talk."""
PREFIXES = ("NCCL_", "TORCH_")
"""Of the variables that say how ranks talk, and what they leave behind."""


def settings_of(environ: bytes) -> dict[str, str]:
    """Those variables of `/proc/PID/environ`, by name."""
    found = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "backslashreplace").partition("=")
        if equals and name.startswith(PREFIXES):
            found[name] = value
    return dict(sorted(found.items()))


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
