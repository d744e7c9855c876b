"""`rankmuster watch` where its surroundings are ill: it goes on looking, and says the same by its exit status."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

F_SETPIPE_SZ = 1031


class Page(BaseHTTPRequestHandler):
    """An engine that works."""

    tokens = 40
    moves = True

    def do_GET(self) -> None:
        Page.tokens += 40 if Page.moves else 0
        labels = '{engine="0",model_name="m"}'
        body = (
            f"vllm:num_requests_running{labels} 3.0\nvllm:num_requests_waiting{labels} 0.0\n"
            f"vllm:generation_tokens_total{labels} {Page.tokens}.0\n"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    server.shutdown()
    server.server_close()


@pytest.fixture
def begin(program: Path, url: str, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str, redirect: str = "", **more: object) -> subprocess.Popen[bytes]:
        options = f"--instance web --metrics-url {url} --period 1 --no-collect --state {tmp_path / 'state'}"
        command = f"exec {program} watch {options} {' '.join(arguments)} {redirect}"
        begun.append(subprocess.Popen(["/bin/sh", "-c", command], cwd=tmp_path, **more))  # type: ignore[call-overload]
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.wait()


def state(tmp_path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "state" / "state.json").read_text())
    return found


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_without_an_output_it_looks_all_the_same(
    begin: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, redirect: str
) -> None:
    assert begin("--seconds 4", redirect=redirect).wait(60) == 0
    (view,) = state(tmp_path)["instances"]  # type: ignore[misc]
    assert view["state"] == "advancing"


def test_an_output_that_nobody_reads_stops_no_look_and_no_end(
    begin: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    watch = begin(stdout=writer)
    file, seen = tmp_path / "state" / "state.json", set()
    end = time.monotonic() + 40
    while len(seen) < 3:
        assert time.monotonic() < end, seen
        if file.exists():
            seen.add(state(tmp_path)["time"])
        time.sleep(0.1)
    watch.terminate()
    assert watch.wait(30) == 0
    os.close(reader)
    os.close(writer)


def test_folders_that_are_given_from_the_working_folder_lie_there(
    begin: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collections and diagnoses are run in another one."""
    monkeypatch.setattr(Page, "moves", False)
    (tmp_path / "watch.yaml").write_text("on_stop: {deadline: 3, stacks: false}\nlogs: {kernel: false}\n")
    watch = begin(
        "--config watch.yaml --collect --bundles below/stops --seconds 20 --format json", stdout=subprocess.PIPE
    )
    assert watch.stdout is not None
    (evidence,) = [one for one in map(json.loads, watch.stdout) if one["event"] == "evidence"]
    watch.stdout.close()
    (bundle,) = (tmp_path / "below" / "stops").glob("*/bundle")
    assert evidence["bundle"] == str(bundle)
    assert (bundle.parent / "verdict.json").is_file()
