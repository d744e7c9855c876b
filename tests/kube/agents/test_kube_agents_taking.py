"""One collection for all who wish the same, never too many at once, and always an end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from rankmuster.kube.agents import taking
from rankmuster.kube.agents.taking import Busy, Taker


def program(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """What is run in place of this program: a shell script whose last word is the bundle's path."""
    monkeypatch.setattr(taking, "OWN", ("/bin/sh", "-c", f"for output; do :; done; {script}", "sh"))


def test_who_wishes_meanwhile_gets_the_same_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, 'echo x >>"$output.runs"; sleep 0.4; echo bundle >"$output"')
    taker, found = Taker(tmp_path / "t", time.monotonic), []

    def wish() -> None:
        taken, handle = taker.take("same", [], 5.0)
        assert handle is not None
        with handle:
            found.append((taken.sha256, taken.partial, handle.read()))

    threads = [threading.Thread(target=wish) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(found)) == 1
    assert found[0][1:] == (False, b"bundle\n")
    assert [path.suffix for path in (tmp_path / "t").iterdir()] == [".runs"]  # run once, and taken away


def test_too_many_are_told_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(monkeypatch, "sleep 0.5")
    taker = Taker(tmp_path / "t", time.monotonic, most=1)
    first = threading.Thread(target=lambda: taker.take("a", [], 5.0))
    first.start()
    while not taker.running:
        time.sleep(0.01)
    with pytest.raises(Busy, match="again"):
        taker.take("b", [], 5.0)
    first.join()
    assert taker.take("b", [], 5.0)[0].bundle is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo why >&2; exit 3", "why"),
        ("kill -9 $$", "signal"),
        ('mkdir "$output.12.part"; exit 1', "no bundle"),
    ],
)
def test_a_collection_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    program(monkeypatch, script)
    taken, handle = Taker(tmp_path / "t", time.monotonic).take("a", [], 2.0)
    assert (handle, taken.bundle, taken.partial) == (None, None, True)
    assert said in taken.note
    assert list((tmp_path / "t").iterdir()) == []


def test_one_that_hangs_is_ended_and_a_half_one_is_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(taking, "GRACE", 0.2)
    program(monkeypatch, 'echo half >"$output"; trap "" TERM; sleep 60')
    begun = time.monotonic()
    taken, handle = Taker(tmp_path / "t", time.monotonic).take("a", [], 0.3)
    assert time.monotonic() - begun < 30
    assert handle is not None
    with handle:
        assert handle.read() == b"half\n"
    assert taken.partial


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    taken, _ = Taker(tmp_path / "file" / "t", time.monotonic).take("a", [], 2.0)
    assert "cannot be made" in taken.note
