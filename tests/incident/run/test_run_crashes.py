"""A runner that is killed anywhere is followed by one that does nothing twice and forgets nothing (a small part of
`make crash-incidents`, which kills at every point)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

TOOL = Path(__file__).resolve().parents[3] / "tools" / "crash_incidents.py"


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("crash_incidents", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["crash_incidents"] = module
    spec.loader.exec_module(module)
    return module


def test_killed_at_eight_points_it_is_served_again_and_nothing_is_done_twice() -> None:
    found = tool().crash(most=8, seed=3, at_once=2)

    assert found["runs"] == 8
    assert found["runners_killed"] >= 5
    assert found["what_was_wrong"] == []
