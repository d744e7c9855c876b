"""Every test of the history runs on both databases; on PostgreSQL against a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres_server import PASSWORD, Postgres, binaries, server
from rankmuster.store.history import History


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server; the test is skipped where there is none to run."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed here (Debian: apt install postgresql)")
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    with server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where nothing is yet."""
    if request.param == "sqlite":
        return str(tmp_path / "history.db")
    running: Postgres = request.getfixturevalue("postgres")
    return running.url(running.new_database(), password=PASSWORD)


@pytest.fixture
def history(url: str) -> Iterator[History]:
    """An empty history."""
    with History.open(url) as opened:
        yield opened
