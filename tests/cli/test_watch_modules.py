"""What the watching process keeps in memory: its own and numpy, no library that only checks, prints or encrypts."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PAGE = b'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Nothing."""


@pytest.fixture
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """Of a server; with the parameter "https" of one that signs for itself."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    if request.param == "https":
        program = shutil.which("openssl") or pytest.skip("no openssl here to make a certificate")
        made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", "key", "-out", "cert"]
        subprocess.run([program, *made], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("port", "scheme"), [("http", "http"), ("https", "https")], indirect=["port"])
def test_encryption_is_loaded_where_a_page_asks_for_it_and_what_checked_the_settings_never(
    program: Path, tmp_path: Path, port: int, scheme: str
) -> None:
    config = tmp_path / "watch.yaml"
    config.write_text("hardware: {source: none}\nlogs: {kernel: false}\n")
    command = [
        program,
        "watch",
        "--config",
        config,
        "--instance",
        "web",
        "--state",
        tmp_path / "state",
        "--period",
        "1",
    ]
    command += ["--metrics-url", f"{scheme}://127.0.0.1:{port}/metrics", "--no-collect", "--format", "json"]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            wait_for_page(tmp_path / "state" / "state.json")
            maps = Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.kill()
    assert "_multiarray_umath" in maps
    assert ("libssl" in maps or "/_ssl." in maps) == (scheme == "https")
    assert "libcrypto" not in maps or scheme == "https"
    assert not [name for name in ("pydantic_core", "_yaml", "zstandard") if name in maps]


def wait_for_page(file: Path, seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if file.is_file() and any(one["running"] == 1.0 for one in json.loads(file.read_text())["instances"]):
            return
        time.sleep(0.1)
    pytest.fail(f"the page was not read: {file.read_text() if file.is_file() else 'no state'}")


def test_libraries_of_the_command_line_are_not_those_of_the_watch() -> None:
    program = (
        "import sys; from rankmuster.cli.plain_http import load_plain_http; load_plain_http(); "
        "import rankmuster.cli.watch_process, rankmuster.cli.event_output, rankmuster.watch.start; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=60)
    modules = set(done.stdout.split())
    assert {"numpy", "http"} <= modules
    assert not {"pydantic", "yaml", "typer", "rich", "click", "zstandard", "prometheus_client", "wsgiref"} & modules
    assert not {"ssl", "hashlib", "asyncio"} & modules


def test_encryption_can_be_loaded_after_http_without_it() -> None:
    program = (
        "from rankmuster.cli.plain_http import load_plain_http; load_plain_http(); "
        "import http.client, sys; assert not hasattr(http.client, 'HTTPSConnection'); assert 'ssl' not in sys.modules; "
        "import ssl; ssl.create_default_context(); load_plain_http(); assert 'ssl' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
