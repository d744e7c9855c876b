"""The installed command, run as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest


@pytest.fixture
def program() -> Path:
    """The console script beside the Python that runs the tests."""
    return Path(sys.executable).with_name("rankmuster")


@pytest.fixture
def examples() -> Path:
    return Path(__file__).parents[2] / "examples"


@pytest.fixture
def command(program: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`command("diagnose", path, env={...})` -> the finished process, started in an empty folder."""

    def run(*arguments: object, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("RANKMUSTER", "NO_COLOR"))}
        return subprocess.run(
            [str(program), *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            cwd=tmp_path,
            env={**clean, **(env or {})},
        )

    return run
