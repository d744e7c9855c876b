"""The ranks of the drill in a cluster, as processes: they serve, make the fault asked for, and the verdict names it.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import contextlib
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
from pathlib import Path

import pytest
from drill_helpers import until

from rankmuster.drill import pod_rank

INSTANCE = "pod-rank-drill"
RANKS = 3


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_what_a_pod_has_to_know_of_its_group_is_named_where_it_is_missing() -> None:
    lws = {"LWS_WORKER_INDEX": "2", "LWS_GROUP_SIZE": "3", "LWS_LEADER_ADDRESS": "llm-0.llm.ns"}
    assert pod_rank.place(lws) == (2, 3, "llm-0.llm.ns")
    assert pod_rank.place(lws | {"RANK": "1"}) == (1, 3, "llm-0.llm.ns")
    with pytest.raises(ValueError, match="WORLD_SIZE and LWS_GROUP_SIZE"):
        pod_rank.place({"RANK": "0"})


def test_a_fault_is_made_once(tmp_path: Path) -> None:
    assert pod_rank.ordered(tmp_path) is None
    (tmp_path / pod_rank.FAULT).write_text("stop\n")
    assert pod_rank.ordered(tmp_path) == "stop"
    assert pod_rank.ordered(tmp_path) is None


def test_bad_usage_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for names in pod_rank.NAMES:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    assert pod_rank.main(["--folder", str(tmp_path)]) == pod_rank.BAD_USAGE
    assert "LWS_WORKER_INDEX" in capsys.readouterr().err


@contextlib.contextmanager
def ranks(folder: Path, port: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    master = free_port()
    for name in ("flight", "pipes"):
        (folder / name).mkdir()
    started = []
    try:
        for rank in range(RANKS):
            environment = os.environ | {
                "LWS_WORKER_INDEX": str(rank),
                "LWS_GROUP_SIZE": str(RANKS),
                "LWS_LEADER_ADDRESS": "127.0.0.1",
                "MASTER_PORT": str(master),
                "RANKMUSTER_INSTANCE": INSTANCE,
                "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1",
                "TORCH_FR_BUFFER_SIZE": "2000",
                "TORCH_FR_DUMP_TEMP_FILE": str(folder / "flight" / "nccl_trace_rank_"),
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(folder / "pipes" / "rank_"),
            }
            command = [sys.executable, "-m", "rankmuster.drill.pod_rank", "--folder", str(folder / f"pod{rank}")]
            with (folder / f"rank{rank}.log").open("wb") as log:
                one = subprocess.Popen([*command, "--port", str(port)], env=environment, stdout=log, stderr=log)
            started.append(one)
        yield started
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                one.send_signal(signal.SIGKILL)
            one.wait()


def asked(port: int) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", b"{}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed (pip install '.[real]')")
def test_a_rank_that_stops_calling_is_named(tmp_path: Path) -> None:
    port = free_port()
    with ranks(tmp_path, port):
        until(lambda: asked(port) == 200, "a good answer")
        (tmp_path / "pod1" / pod_rank.FAULT).write_text("stop")
        time.sleep(2.5)  # more than the tail of a moving job is old
        bundle = tmp_path / "one.tar.zst"
        ours = [sys.executable, "-m", "rankmuster.cli.main"]
        collect = [*ours, "collect", "--instance", INSTANCE, "--output", str(bundle), "--deadline", "20"]
        subprocess.run(collect, capture_output=True)
        done = subprocess.run([*ours, "diagnose", str(bundle), "--format", "json"], capture_output=True, text=True)
    verdict = json.loads(done.stdout)
    assert (verdict["class"], verdict["subclass"]) == ("collective_desync", "missing_enter")
    assert [one["rank"] for one in verdict["suspects"] if one["role"] == "culprit"] == [1]
