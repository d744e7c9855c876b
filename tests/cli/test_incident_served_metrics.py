"""The page of metrics beside `incident serve`: a real server, a real journal, and a journal that goes away."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("prometheus_client")

from incident_story import recovered, written
from rankmuster.cli import incident_metrics
from rankmuster.cli.status import CommandError
from rankmuster.store.journal import Journal


def page(address: tuple[str, int]) -> str:
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as answer:
        text: str = answer.read().decode("utf-8")
        return text


def until(address: tuple[str, int], words: str) -> str:
    end = time.monotonic() + 20
    while words not in (text := page(address)):
        assert time.monotonic() < end, text
        time.sleep(0.02)
    return text


def test_it_is_served_and_follows_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_metrics, "READ_SECONDS", 0.02)
    place = str(tmp_path / "incidents.db")
    with Journal.open(place) as journal, incident_metrics.served("127.0.0.1:0", journal) as address:
        until(address, "rankmuster_incident_breaker_open 0.0")
        written(place, recovered())
        until(address, 'rankmuster_incident_traffic_stopped{llm_instance="llm-0"} 0.0')


def test_a_journal_that_cannot_be_read_is_said_once_and_the_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(incident_metrics, "READ_SECONDS", 0.02)
    place = tmp_path / "incidents.db"
    with Journal.open(str(place)) as journal, incident_metrics.served("127.0.0.1:0", journal) as address:
        until(address, "rankmuster_incident_breaker_open 0.0")
        with Journal.open(str(place)) as other:
            other.open_breaker("x", time.time())
        until(address, "rankmuster_incident_breaker_open 1.0")
        journal.close()
        for file in tmp_path.glob("incidents.db*"):
            file.rename(file.with_suffix(".gone"))
        place.mkdir()
        time.sleep(0.2)
        assert "rankmuster_incident_breaker_open 1.0" in page(address)
    said = capsys.readouterr().err
    assert said.count("metrics are not up to date") == 1
    assert str(place) in said


def test_an_address_that_is_none_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    with Journal.open(str(tmp_path / "incidents.db")) as journal:
        for listen in ("nowhere", "127.0.0.1:99999", "192.0.2.1:9465"):
            with pytest.raises(CommandError), incident_metrics.served(listen, journal):
                pytest.fail("it listens")
