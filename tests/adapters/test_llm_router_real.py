"""The released programs of both routers, where they are on the PATH (`pip install sglang-router vllm-router`)."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from haproxy_server import Client, Engine, free_port, wait_until
from rankmuster.adapters.registry_traffic import RegistryTraffic
from rankmuster.adapters.sglang_router import sglang_router
from rankmuster.adapters.vllm_router import vllm_router
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, TrafficState

PROGRAMS = {"sglang": ("smg", ["launch"]), "vllm": ("vllm-router", [])}


def soon() -> Deadline:
    return Deadline.after(15.0)


@contextmanager
def router(kind: str, folder: Path, *workers: str) -> Iterator[str]:
    program, arguments = PROGRAMS[kind]
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    port = free_port()
    command = [path, *arguments, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    with (folder / "router.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--policy", "round_robin", "--worker-urls", *workers], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: process.poll() is not None or _there(port), 60.0)
        assert process.poll() is None, (folder / "router.log").read_text(errors="replace")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _there(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/workers")
        return len(json.loads(connection.getresponse().read())["workers"]) == 2
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def asked(url: str, **more: object) -> Client:
    """One completion through the router."""
    return Client(int(url.rpartition(":")[2]), "/v1/completions", {"model": "m", "prompt": "x", **more})


def all_good(url: str, times: int) -> bool:
    return [asked(url).over().status for _ in range(times)] == [200] * times


@pytest.mark.parametrize("kind", list(PROGRAMS))
def test_nothing_new_arrives_between_taking_it_out_and_putting_it_in(kind: str, tmp_path: Path) -> None:
    engines = [Engine(tmp_path, f"llm-{number}") for number in range(2)]
    ours, other = (f"http://127.0.0.1:{one.port}" for one in engines)
    try:
        with router(kind, tmp_path, ours, other) as url:
            make = sglang_router if kind == "sglang" else vllm_router
            one: RegistryTraffic = make("front", url, ours)
            assert one.look(soon()).state is TrafficState.READY
            assert all_good(url, 4)
            answer = one.stop_new("", soon())
            assert answer.ending is Ending.DONE, answer
            assert one.look(soon()).state is TrafficState.ABSENT
            before = engines[0].seen.count("/v1/completions")
            assert before
            assert all_good(url, 6)
            assert engines[0].seen.count("/v1/completions") == before
            assert one.stop_new("", soon()).ending is Ending.DONE
            answer = one.restore(soon())
            assert answer.ending is Ending.DONE, answer
            assert one.restore(soon()).ending is Ending.DONE
            wait_until(lambda: all_good(url, 1) and engines[0].seen.count("/v1/completions") > before)
            # A worker that does not answer is accepted, and never comes.
            engines[0].kill()
            assert one.stop_new("", soon()).ending is Ending.DONE
            answer = one.restore(Deadline.after(2.0))
            assert answer.ending is Ending.TIMED_OUT, answer
    finally:
        for engine in engines:
            engine.kill()


@pytest.mark.parametrize("kind", list(PROGRAMS))
def test_a_stream_goes_on_after_its_worker_was_taken_out(kind: str, tmp_path: Path) -> None:
    engines = [Engine(tmp_path, f"llm-{number}") for number in range(2)]
    ours, other = (f"http://127.0.0.1:{one.port}" for one in engines)
    try:
        with router(kind, tmp_path, ours, other) as url:
            make = sglang_router if kind == "sglang" else vllm_router
            one: RegistryTraffic = make("front", url, ours)
            streams = [asked(url, stream=True) for _ in range(4)]
            assert all(each.begun.wait(10) for each in streams)
            before = len(engines[0].seen)
            answer = one.stop_new("", soon())
            assert answer.ending is Ending.DONE, answer
            told = len(streams[0].body)
            wait_until(lambda: all(len(each.body) > told for each in streams))
            for engine in engines:
                engine.let_go()
            assert [each.over().broken for each in streams] == [None] * 4
            assert engines[0].seen.count("/v1/completions") == 2
            assert len(engines[0].seen) == before
    finally:
        for engine in engines:
            engine.kill()
