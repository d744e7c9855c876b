"""The journal in a database does what every journal has to, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from journal_contract import CHECKS, Make
from rankmuster.store.journal import Journal


@pytest.fixture
def make(url: str) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda clock: stack.enter_context(Journal.open(url, clock=clock))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_database_keeps_the_contract(check: Callable[[Make], None], make: Make) -> None:
    check(make)
