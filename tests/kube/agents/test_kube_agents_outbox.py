"""What has to leave the pod leaves it, also where the agent was away; and nobody waits longer than the grace."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from page_server import reply, serving
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.agents import handing, outbox
from rankmuster.kube.agents.handing import hand_over
from rankmuster.kube.agents.outbox import MOST, Letter, Outbox


def letter(folder: Path, name: str) -> Letter:
    path = folder / name
    path.write_bytes(b"bundle")
    return Letter(path, name, "0" * 64, 6)


def test_an_agent_that_was_away_gets_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PAUSE_SECONDS", 0.05)
    here, got, said = threading.Event(), [], []

    def hand(one: Letter, deadline: Deadline) -> str:
        if not here.is_set():
            return "away"
        got.append(one.name)
        return ""

    box = Outbox(hand, said.append, time.monotonic)
    for name in ("a", "b"):
        box.put(letter(tmp_path, name))
    while len(said) < 3:
        time.sleep(0.01)
    assert all("not with the node's agent yet: away" in line for line in said)
    here.set()
    box.flush(Deadline.after(10.0))
    assert sorted(got) == ["a", "b"]
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_grace_is_the_end(tmp_path: Path) -> None:
    said: list[str] = []
    box = Outbox(
        lambda one, deadline: threading.Event().wait(deadline.remaining()) or "late", said.append, time.monotonic
    )
    box.put(letter(tmp_path, "a"))
    begun = time.monotonic()
    box.flush(Deadline.after(0.3))
    assert time.monotonic() - begun < 5
    assert "not handed over when the pod ended" in said[-1]
    box = Outbox(lambda one, deadline: "no", said.append, time.monotonic)
    box.flush(Deadline.after(0.0))  # with nothing to hand over nobody waits


def test_the_oldest_is_given_up_where_too_many_wait(tmp_path: Path) -> None:
    said: list[str] = []
    block = threading.Event()
    box = Outbox(lambda one, deadline: "" * block.wait(10), said.append, time.monotonic)
    for number in range(MOST + 1):
        box.put(letter(tmp_path, f"n{number}"))
    assert any("n0" in line and "given up" in line for line in said)
    block.set()
    box.flush(Deadline.after(10.0))


def test_a_refusal_is_final_and_a_full_or_broken_agent_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handing, "FIRST_PAUSE", 0.02)
    bundle = tmp_path / "b"
    bundle.write_bytes(b"bundle")
    answers = [
        b"",
        reply('{"error": "full"}', "507 Insufficient Storage"),
        reply("", "401 Unauthorized"),
        reply("", "201 Created"),
    ]
    requests: list[bytes] = []

    def hand(url: str, seconds: float = 10.0) -> str:
        return hand_over(
            bundle,
            "b.tar.zst",
            "1" * 64,
            6,
            url,
            pod_uid="uid-1",
            instance="ns.x",
            headers={"Authorization": "Bearer hidden"},
            deadline=Deadline.after(seconds),
        )

    with serving(lambda connection, _, count: connection.sendall(answers[count - 1]), requests=requests) as url:
        assert hand(url) == ""
    assert len(requests) == 4
    head = requests[-1].decode()
    assert head.startswith("PUT /v1/bundles/b.tar.zst HTTP/1.1\r\n")
    for line in ("X-Rankmuster-Pod-Uid: uid-1", "Content-Length: 6", f"X-Rankmuster-Sha256: {'1' * 64}"):
        assert line in head
    with serving(lambda connection, *_: connection.sendall(reply('{"error": "other content"}', "409 Conflict"))) as url:
        assert "other content" in hand(url)
    why = hand("http://127.0.0.1:9", 0.2)
    assert "connection" in why
    assert "hidden" not in why
    bundle.unlink()
    assert "cannot be read" in hand("http://127.0.0.1:9")
