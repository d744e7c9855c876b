from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervised_run import Run, cleaned


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts `rankmuster run`; the socket's path has to be short."""
    folder = tmp_path_factory.mktemp("r")
    with cleaned(tmp_path) as runs:

        def start(*command: str, options: tuple[str, ...] = (), **more: Any) -> Run:
            # of its own: whatever another test or user runs is not its business
            name = more.pop("name", "llm") + ("" if more.pop("exactly", False) else f"-{folder.stat().st_ino}")
            made = Run(more.pop("folder", folder), command, *options, work=tmp_path, name=name, **more)
            runs.append(made)
            return made

        yield start
