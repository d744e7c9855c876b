"""Memory of `rankmuster watch` with everything it starts, on a node with a small server's page.

    python benchmarks/watch_memory.py --seconds 60

Where a C compiler is found, the library of the tests stands for NVIDIA's driver, with four GPUs: on a real node the
driver's own part comes on top (18.5 MB measured). `--driver none` takes no GPUs, `--driver real` those of this node.
Printed for each process: RSS, PSS (shared pages by halves), and what is anonymous, that is nobody else's; then the sum.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAKE_DRIVER = Path(__file__).parents[1] / "tests" / "collect" / "node" / "fake_nvml.c"

UNITS = {"Rss": "RSS", "Pss": "PSS", "Anonymous": "anonymous"}


@dataclass(frozen=True)
class Memory:
    """Of one process, in MiB, in the order of UNITS."""

    what: str
    mib: tuple[float, ...]


class Page(BaseHTTPRequestHandler):
    """A server that generates: each look finds more tokens."""

    tokens = 0

    def do_GET(self) -> None:
        Page.tokens += 40
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="after the start, before the memory is read")
    parser.add_argument("--driver", choices=("fake", "real", "none"), default="fake")
    parser.add_argument("--option", action="append", default=[], help="further ones of `rankmuster watch`")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose rankmuster is measured")
    parser.add_argument("--output", type=Path, help="the same as JSON")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    with tempfile.TemporaryDirectory(prefix="rankmuster-memory-") as name:
        folder = Path(name)
        found = measure(options.python, url, folder, options.driver, options.option, options.seconds)
    server.shutdown()
    if not found:
        print("the watch ended by itself", file=sys.stderr)
        return 1
    print("  ".join(f"{unit:>10}" for unit in UNITS.values()) + "  MiB")
    total = Memory("all of it", tuple(sum(column) for column in zip(*(one.mib for one in found), strict=True)))
    for one in (*found, total):
        print("  ".join(f"{size:10.1f}" for size in one.mib) + f"  {one.what}")
    if options.output:
        said = {one.what: dict(zip(UNITS.values(), one.mib, strict=True)) for one in (*found, total)}
        options.output.write_text(json.dumps(said, indent=1) + "\n")
    return 0


def measure(python: str, url: str, folder: Path, driver: str, more: list[str], seconds: float) -> list[Memory]:
    """The memory of the watch and of what it has started, after so many seconds."""
    environment = {**os.environ}
    config = folder / "watch.yaml"
    config.write_text(f"logs: {{kernel: false}}\nhardware: {{source: {'none' if driver == 'none' else 'auto'}}}\n")
    if driver == "fake":
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("no C compiler here to make the library that stands for the driver: --driver none")
        library = folder / "libnvidia-ml.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(FAKE_DRIVER)], check=True)
        environment["LD_LIBRARY_PATH"] = str(folder)
    arguments = ["watch", "--instance", "web", "--metrics-url", url, "--config", str(config), "--state", str(folder)]
    start = "from rankmuster.cli.main import run; run()"
    with subprocess.Popen([python, "-c", start, *arguments, *more], env=environment, cwd=folder) as process:
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        found = [memory(pid) for pid in (process.pid, *children(process.pid))] if process.poll() is None else []
        process.terminate()
    return [one for one in found if one is not None]


def children(pid: int) -> list[int]:
    """All that come from it."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def memory(pid: int) -> Memory | None:
    """None where it has ended meanwhile."""
    with suppress(OSError):
        rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
        sizes = {row[0].rstrip(":"): int(row[1]) / 1024 for row in rows if len(row) == 3}
        command = Path(f"/proc/{pid}/cmdline").read_text()
        what = "the child that asks NVML" if "nvml_child" in command else "the watch" if "watch" in command else "other"
        return Memory(what, tuple(round(sizes[name], 2) for name in UNITS))
    return None


if __name__ == "__main__":
    sys.exit(main())
