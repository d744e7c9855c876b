"""The journal in memory keeps to the contract of every journal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal_contract import CHECKS, Make
from rankmuster.incident.memory_journal import MemoryJournal


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[Make], None]) -> None:
    check(MemoryJournal)
