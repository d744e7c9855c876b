"""`rankmuster watch` as a user runs it, on a server of our own making."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SERVER_NAME = "web"


class Engine:
    """A serving engine's page: `moves` while it generates, `running` requests."""

    def __init__(self) -> None:
        self.moves = True
        self.running = 3
        self.answers = True
        self._tokens = 0
        engine = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = engine.page()
                self.send_response(200 if engine.answers else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/metrics"

    def page(self) -> bytes:
        if self.moves and self.running:
            self._tokens += 40
        labels = '{engine="0",model_name="m"}'
        return (
            f"vllm:num_requests_running{labels} {self.running}.0\n"
            f"vllm:num_requests_waiting{labels} 0.0\n"
            f"vllm:generation_tokens_total{labels} {self._tokens}.0\n"
        ).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    yield found
    found.close()


class Watching:
    """A running watch; its events as they come."""

    def __init__(self, process: subprocess.Popen[str], state: Path) -> None:
        self.process = process
        self.state_file = state / "state.json"
        self.events: list[dict[str, object]] = []
        self._new = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._new:
                self.events.append(json.loads(line))
                self._new.notify_all()

    def wait(self, event: str, seconds: float = 40.0) -> dict[str, object]:
        """The first event of this name."""
        end = time.monotonic() + seconds
        with self._new:
            while True:
                found = next((one for one in self.events if one["event"] == event), None)
                if found is not None:
                    return found
                assert time.monotonic() < end, f"no {event!r} among {[one['event'] for one in self.events]}"
                self._new.wait(0.5)

    def state(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.state_file.read_text())
        return found


@pytest.fixture
def watching(program: Path, tmp_path: Path) -> Iterator[Callable[..., Watching]]:
    """`watching("--metrics-url", url)` -> a watch with a period of 1 s, whose events are JSON."""
    begun: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> Watching:
        state = tmp_path / "state"
        command = [program, "watch", "--instance", SERVER_NAME, "--period", "1", "--format", "json", "--state", state]
        process = subprocess.Popen(
            [*map(str, command), *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        begun.append(process)
        return Watching(process, state)

    yield run
    for process in begun:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_stop_is_told_answered_once_and_its_end_is_told(
    engine: Engine, watching: Callable[..., Watching], tmp_path: Path
) -> None:
    config = tmp_path / "watch.yaml"
    # Without the kernel log: other tests' processes crash on purpose.
    config.write_text("on_stop: {deadline: 3, stacks: false}\nhardware: {source: none}\nlogs: {kernel: false}\n")
    watch = watching("--metrics-url", engine.url, "--config", config)
    watch.wait("advancing")
    engine.moves = False
    stopped = watch.wait("stopped")
    assert stopped["severity"] == "alarm"
    assert stopped["instance"] == SERVER_NAME
    assert "unchanged" in str(stopped["text"])
    (view,) = watch.state()["instances"]  # type: ignore[misc]
    assert view["state"] == "stopped"
    assert view["stops"] == 1
    evidence = watch.wait("evidence")
    assert "collect" in str(evidence["text"])
    engine.moves = True
    watch.wait("resumed")
    assert [one["event"] for one in watch.events].count("stopped") == 1
    watch.process.send_signal(signal.SIGTERM)
    assert watch.process.wait(20) == 0


def test_an_idle_instance_and_one_whose_page_fails_have_not_stopped(
    engine: Engine, watching: Callable[..., Watching]
) -> None:
    engine.running = 0
    watch = watching("--metrics-url", engine.url, "--no-collect", "--seconds", "9")
    watch.wait("idle")
    engine.answers = False
    assert watch.process.wait(40) in (0, 2)
    assert not [one for one in watch.events if one["severity"] == "alarm"]
    (view,) = watch.state()["instances"]  # type: ignore[misc]
    (plane,) = [one for one in view["planes"] if one["plane"] == "engine"]
    assert plane["state"] == "silent"
    assert "500" in plane["note"]


@pytest.mark.parametrize(("moves", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_after_some_seconds_is_the_state(
    engine: Engine, watching: Callable[..., Watching], moves: bool, status: int
) -> None:
    engine.moves = moves
    for _ in range(3):
        engine.page()  # it has worked before
    engine._tokens += 1
    watch = watching("--metrics-url", engine.url, "--no-collect", "--seconds", "8")
    assert watch.process.wait(40) == status


def test_nobody_to_watch_cannot_be_told(watching: Callable[..., Watching]) -> None:
    watch = watching("--seconds", "1.5", "--no-collect")
    assert watch.process.wait(40) == 2
    assert watch.state()["instances"] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("period: soon\n", "period"),
        ("perriod: 5\n", "perriod"),
        ("period: 0.1\n", "greater than or equal to 1"),
        ("[1, 2]\n", "wanted are keys"),
        ("a: [\n", "no YAML"),
        ("on_stop: {hooks: [{kind: pager}]}\n", "hooks"),
        ("engine: {mappings: [{name: Mine!}]}\n", "mappings"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_with_the_place(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, text: str, told: str
) -> None:
    config = tmp_path / "watch.yaml"
    config.write_text(text)
    done = command("watch", "--config", config, "--seconds", "1")
    assert done.returncode == 3
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_configuration_that_cannot_be_read_is_told(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = command("watch", "--config", tmp_path / "none.yaml")
    assert (done.returncode, "none.yaml" in done.stderr) == (3, True)
    (tmp_path / "bytes.yaml").write_bytes(b"period: \xff\xfe\n")
    done = command("watch", "--config", tmp_path / "bytes.yaml")
    assert (done.returncode, "UTF-8" in done.stderr) == (3, True)


def test_a_port_that_is_taken_is_told_before_anything_is_watched(
    command: Callable[..., subprocess.CompletedProcess[str]], engine: Engine, tmp_path: Path
) -> None:
    taken = engine.url.split("/")[2]
    done = command("watch", "--listen", taken, "--state", tmp_path, "--seconds", "1")
    assert done.returncode == 3
    assert taken in done.stderr


def test_modules_of_the_working_folder_are_not_run(
    engine: Engine, watching: Callable[..., Watching], tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the working folder was run')\n")
    watch = watching("--metrics-url", engine.url, "--no-collect", "--seconds", "3")
    assert watch.process.wait(40) == 0


def test_it_needs_little_memory(engine: Engine, watching: Callable[..., Watching]) -> None:
    watch = watching("--metrics-url", engine.url, "--no-collect")
    watch.wait("advancing")
    status = Path(f"/proc/{watch.process.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 64 * 1024  # 45 MB measured; numpy's and Python's own differ by version
    os.kill(watch.process.pid, signal.SIGINT)
    assert watch.process.wait(20) == 0
