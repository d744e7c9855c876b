"""The drill's engine: real requests, real ranks, one end for all of them, and the same address in the next incarnation.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from drill_helpers import ended, until

from rankmuster.drill.engine import BAD_USAGE
from rankmuster.drill.engine_folder import RECORD, EngineFolder, FaultOrder, Incarnation
from rankmuster.drill.engine_record import Recorded, What, read
from rankmuster.drill.launch import bound
from rankmuster.drill.plan import TALLY
from rankmuster.drill.tally import Tally

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')"
)

RANKS = 3
ENGINE = (sys.executable, "-m", "rankmuster.drill.engine")
START_SECONDS = 90.0


def free_port() -> int:
    with bound() as one:
        return int(one.getsockname()[1])


@contextmanager
def engine(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [*ENGINE, str(folder), "--ranks", str(RANKS), "--port", str(port), "--instance", "llm"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while not serves(port):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def serves(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def ask(port: int, timeout: float = 30.0, **wish: Any) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps({"prompt": "is anybody there", **wish}).encode(),
        {"X-Request-Id": "from-the-test"},
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return str(answer.read().decode())


def status_of(port: int, **wish: Any) -> int:
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(port, **wish)
    error.value.close()
    return error.value.code


def about(folder: Path, number: int = 1) -> Incarnation:
    found = EngineFolder(folder).about(number)
    assert found is not None
    return found


def recorded(folder: Path, what: What, number: int = 1) -> list[Recorded]:
    return [one for one in read(EngineFolder(folder).of(number) / RECORD) if one.what is what]


@needs_torch
def test_tokens_come_from_all_ranks_and_the_record_says_who_got_them(tmp_path: Path) -> None:
    port = free_port()
    with engine(tmp_path, port) as process:
        whole = json.loads(ask(port, max_tokens=5))
        assert whole["choices"][0] == {"index": 0, "text": " yes" * 5, "logprobs": None, "finish_reason": "length"}
        assert whole["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        assert whole["system_fingerprint"] == "incarnation-1"
        lines = ask(port, max_tokens=2, stream=True).split("\n\n")
        assert [json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in lines[:2]] == [" yes"] * 2
        assert lines[2:] == ["data: [DONE]", ""]
        assert json.loads(ask(port, max_tokens=1))["choices"][0]["text"] == " yes"
        assert [status_of(port, max_tokens=0), status_of(port, prompt=7), status_of(port, max_tokens=True)] == [400] * 3
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: json.loads(ask(port, max_tokens=3)), range(20)))
        assert all(one["choices"][0]["text"] == " yes" * 3 for one in answers)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
        assert 'vllm:generation_tokens_total{engine="0",model_name="drill"} 68.0' in page
        assert 'vllm:num_requests_running{engine="0",model_name="drill"} 0.0' in page
        received = recorded(tmp_path, What.RECEIVED)
        assert sorted(one.more["number"] for one in received) == list(range(1, 24))
        assert {one.more["name"] for one in received} == {"from-the-test"}
        assert len(recorded(tmp_path, What.ANSWERED)) == 23
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    who = about(tmp_path)
    assert all(ended(pid) for pid in (*who.ranks, who.front or 0))


@needs_torch
def test_a_client_that_leaves_is_no_request_any_more(tmp_path: Path) -> None:
    port = free_port()
    with engine(tmp_path, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            body = json.dumps({"prompt": "a", "max_tokens": 4000, "stream": True})
            head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall((head + body).encode())
            client.recv(100)
        until(lambda: bool(recorded(tmp_path, What.LEFT)), "seen that it left")

        def resting() -> bool:
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
            return 'vllm:num_requests_running{engine="0",model_name="drill"} 0.0' in page

        until(resting, "at rest")


@needs_torch
def test_one_rank_that_dies_ends_all_and_the_next_incarnation_has_its_address_and_no_fault(tmp_path: Path) -> None:
    port = free_port()
    EngineFolder(tmp_path).order(FaultOrder("stop", 1))
    with engine(tmp_path, port) as process:
        first = about(tmp_path)
        os.kill(first.ranks[2], signal.SIGKILL)
        assert process.wait(30) == 128 + signal.SIGKILL
        until(lambda: all(ended(pid) for pid in (*first.ranks, first.front or 0)), "gone, all of them")
    with engine(tmp_path, port), Tally(tmp_path / "current" / TALLY) as tally:
        tally.armed = True  # the order was for the first one
        assert json.loads(ask(port, max_tokens=2))["system_fingerprint"] == "incarnation-2"
        assert about(tmp_path, 2).port == port
        assert len(recorded(tmp_path, What.RECEIVED, 2)) == 1


@needs_torch
def test_a_hang_shows_in_no_answer_but_that_none_comes(tmp_path: Path) -> None:
    port = free_port()
    EngineFolder(tmp_path).order(FaultOrder("skip", 1))
    with engine(tmp_path, port), Tally(tmp_path / "current" / TALLY) as tally:
        assert json.loads(ask(port, max_tokens=2))["choices"][0]["text"] == " yes yes"
        tally.armed = True
        with pytest.raises(TimeoutError):
            ask(port, timeout=2.0, max_tokens=200)
        assert tally.fault_at
        assert serves(port)
        tokens = recorded(tmp_path, What.TOKENS)
        assert all(one.more["good"] for one in tokens)
        assert tokens[-1].at < time.time() - 1.0


@pytest.mark.parametrize(
    ("options", "order", "says"),
    [
        (["--ranks", "1"], None, "has nobody to wait for"),
        (["--graph"], None, "only NCCL's collectives"),
        ([], FaultOrder("graph_stop", 1), "cannot be made with gloo"),
        ([], FaultOrder("bad luck", 1), "no fault named 'bad luck'"),
        (["--ranks", "three"], None, "invalid int value"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: list[str], order: FaultOrder | None, says: str) -> None:
    if order is not None:
        EngineFolder(tmp_path).order(order)
    done = subprocess.run([*ENGINE, str(tmp_path), *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == BAD_USAGE
    assert says in done.stderr


def test_a_port_that_another_has_is_said(tmp_path: Path) -> None:
    with bound() as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [*ENGINE, str(tmp_path), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == BAD_USAGE
    assert "Address already in use" in done.stderr
