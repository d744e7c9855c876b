"""A DCGM exporter of a few GPUs that serves what it was told last, and odd servers in its place."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HELP = "# HELP {0} Text of {0}.\n# TYPE {0} {1}\n"
COUNTERS = ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")
OTHERS = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")


def labels(gpu: int, **more: str) -> str:
    said = {
        "gpu": str(gpu),
        "UUID": f"GPU-0000000{gpu}",
        "pci_bus_id": f"00000000:{0x53 + gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H200",
        "Hostname": "node-a",
        "DCGM_FI_DRIVER_VERSION": "580.105.08",
        **more,
    }
    return ",".join(f'{name}="{value}"' for name, value in said.items())


def render(gpus: Mapping[int, Mapping[str, object]], **more: str) -> str:
    """The page of these GPUs: series -> value; others that an exporter has are added."""
    text = ""
    names = list(dict.fromkeys(name for values in gpus.values() for name in values))
    for name in [*names, *OTHERS]:
        text += HELP.format(name, "counter" if name in COUNTERS else "gauge")
        for gpu, values in gpus.items():
            if name in values or name in OTHERS:
                text += f"{name}{{{labels(gpu, **more)}}} {values.get(name, 31)}\n"
    return text


class Exporter:
    """`body`, `status`: of its answers from now on. `mode`: "page", "hang", "drip", "endless"."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.status = 200
        self.mode = "page"
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.mode == "hang":
            self.over.wait(30)
            return
        handler.send_response(self.status)
        handler.send_header("Content-Type", "text/plain; version=0.0.4")
        handler.end_headers()
        try:
            if self.mode == "page":
                handler.wfile.write(self.body)
            while self.mode == "drip" and not self.over.wait(0.02):
                handler.wfile.write(b"D")
            while self.mode == "endless" and not self.over.is_set():
                handler.wfile.write(b'DCGM_FI_DEV_GPU_UTIL{gpu="0",x="' + b"y" * 60_000)
        except OSError:
            pass

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    try:
        yield made
    finally:
        made.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Moment:
    """A clock that a test moves; `unix` is apart from it, as clocks are."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.began = time.monotonic()

    def clock(self) -> float:
        return self.at

    def unix(self) -> float:
        return 1.7e9 + self.at
