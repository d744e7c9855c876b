"""Real torch ranks beside the real `rankmuster watch`: a stop is told in time, and rest is none.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rankmuster.drill.controls import Quiet
from rankmuster.drill.faults import fault_named
from rankmuster.drill.plan import Backend, Serving
from rankmuster.drill.run import Order
from rankmuster.drill.traffic import Traffic
from rankmuster.drill.watch_control import run_control
from rankmuster.drill.watch_fault import run_fault
from rankmuster.drill.watched import WatchOrder
from rankmuster.model.fault import Progress

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

ORDER = WatchOrder(Order(fault_named("none"), Backend.GLOO, 3, start_seconds=90.0), period=1.0, verdicts=False)
"""A short period, so that the tests are short; the watch scales what it waits for with it."""


@pytest.mark.parametrize("fault", ["loop", "kill"])
def test_a_stop_is_told_in_time_and_nobody_is_named_wrongly(fault: str, tmp_path: Path) -> None:
    result = run_fault(ORDER, fault_named(fault), 0, tmp_path)
    assert result.right, result.wrongs
    # Of a rank that is killed gloo's others end within a second: whether one is still seen is chance.
    assert result.told in (("stopped",) if fault == "loop" else ("stopped", "gone"))


def test_rest_is_no_stop(tmp_path: Path) -> None:
    rest = Quiet("rest", "for tests", Serving(Traffic.IDLE), 10.0, (Progress.IDLE,))
    result = run_control(ORDER, rest, 0, tmp_path)
    assert result.right, result.wrongs
