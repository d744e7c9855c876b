"""Several threads of one process make their journals at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import postgres_server
from rankmuster.store.journal import Journal


def made_at_once(urls: list[str]) -> list[object]:
    found: list[object] = []
    ready = threading.Barrier(len(urls))

    def make(url: str) -> None:
        ready.wait()
        try:
            with Journal.open(url) as journal:
                found.append(journal.incidents())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=make, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_files_are_made_at_once(tmp_path: Path) -> None:
    assert made_at_once([str(tmp_path / f"{number}.db") for number in range(6)]) == [()] * 6
    assert made_at_once([str(tmp_path / "one.db")] * 6) == [()] * 6


@pytest.mark.skipif(postgres_server.binaries() is None, reason="PostgreSQL is not installed")
def test_databases_are_made_at_once() -> None:
    pytest.importorskip("psycopg")
    with postgres_server.server() as server:
        names = [server.new_database() for _ in range(3)]
        urls = [server.url(name, password=postgres_server.PASSWORD) for name in names]
        assert made_at_once([*urls, *urls]) == [()] * 6
