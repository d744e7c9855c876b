"""`rankmuster kube admit-job` as a container runs it: a process, a termination message and what it prints."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rankmuster.adapters.kube.job_record import record_of
from rankmuster.adapters.kube.job_words import Ending, NotSaid, Summary, summary_of, unpacked
from rankmuster.collect.deadline import Deadline
from rankmuster.evidence.fingerprint_file import read_fingerprint
from rankmuster.kube.admission.meeting import NotMet, meet

SECONDS = 60.0


def started(folder: Path, *options: str, **environ: str) -> subprocess.Popen[bytes]:
    """`NODE_NAME` is n1 unless it is said otherwise."""
    command = [sys.executable, "-m", "rankmuster.cli.main", "kube", "admit-job", *options]
    return subprocess.Popen(
        [*command, "--termination-log", str(folder / "message")],
        env={**os.environ, "NODE_NAME": "n1", "POD_NAME": "pod-1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
    )


def summary(folder: Path) -> Summary:
    return summary_of((folder / "message").read_text())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    """By the kernel's table: a connection would be taken for the peer's."""
    end = time.monotonic() + SECONDS
    wanted = f":{port:04X} "
    while time.monotonic() < end:
        tables = [
            Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6") if Path(f"/proc/net/{name}").exists()
        ]
        if any(wanted in line and " 0A " in line for table in tables for line in table.splitlines()):
            return True
        time.sleep(0.05)
    return False


def test_a_node_without_gpus_hands_out_a_record_that_says_so(tmp_path: Path) -> None:
    process = started(tmp_path)
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    found = summary(tmp_path)
    assert (found.ending, found.node, found.kind, found.decision) == (Ending.DONE, "n1", "alone", "error")
    payload = unpacked(output, found)
    document = record_of(payload, "n1")
    assert document["hash"] == found.seal
    assert any("pod-1" in note for note in document["notes"])
    assert read_fingerprint(payload.parts["fingerprint"]).host == "n1"
    with pytest.raises(NotSaid, match="n2 was asked for"):
        record_of(payload, "n2")


def test_the_peer_of_a_pair_that_does_not_come_is_said_and_no_result_is(tmp_path: Path) -> None:
    options = ("--pair", "127.0.0.1", "--port", str(free_port()), "--wait-seconds", "1")
    process = started(tmp_path, *options, JOB_COMPLETION_INDEX="1")
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 3, errors
    found = summary(tmp_path)
    assert (found.ending, found.kind, found.sha256) == (Ending.FAILED, "pair", None)
    assert "was not reached" in found.reason
    with pytest.raises(NotSaid):
        unpacked(output, found)


def test_a_pod_that_is_told_to_end_says_so_and_takes_what_measures_with_it(tmp_path: Path) -> None:
    port = free_port()
    process = started(tmp_path, "--pair", "127.0.0.1", "--port", str(port), JOB_COMPLETION_INDEX="0")
    assert listens(port)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert summary(tmp_path).ending is Ending.STOPPED
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        ((), {"NODE_NAME": ""}, b"--node"),
        (("--pair", "x"), {"JOB_COMPLETION_INDEX": "7"}, b"JOB_COMPLETION_INDEX"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, options: tuple[str, ...], environ: dict[str, str], words: bytes
) -> None:
    process = started(tmp_path, *options, **environ)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert words in errors


def test_two_pods_meet_whoever_comes_first_and_strangers_are_passed_over() -> None:
    port = free_port()
    done: list[int] = []

    def come(place: int) -> None:
        meet(place, "127.0.0.1", port, Deadline.after(SECONDS), sleep=lambda _: time.sleep(0.01))
        done.append(place)

    second = threading.Thread(target=come, args=(1,))
    second.start()
    first = threading.Thread(target=come, args=(0,))
    first.start()
    for one in (first, second):
        one.join(SECONDS)
    assert sorted(done) == [0, 1]
    with pytest.raises(NotMet, match="did not come"):
        meet(0, "", port, Deadline.after(0.05))
