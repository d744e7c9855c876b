"""A whole drill from its command to its card, for the tests that run one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from rankmuster.model import drill_card
from rankmuster.model.drill_card import ScoreCard

LACKS_REAL = any(importlib.util.find_spec(name) is None for name in ("torch", "sqlalchemy"))
"""Whether real ranks, or the journal, cannot be had here."""
DRILL = (sys.executable, "-m", "rankmuster.cli.main", "drill")
SECONDS = 280.0
"""For a whole drill of one fault and two controls; it takes a minute and a half on two quiet cores."""


def drilled(*arguments: object, status: int) -> str:
    done = subprocess.run(
        [*DRILL, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def card_in(folder: Path) -> ScoreCard:
    return drill_card.read((folder / "card.json").read_bytes())
