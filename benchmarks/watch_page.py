"""What one metrics page costs the watch: filtered and parsed, beside parsed whole, in the same run; and a whole poll.

    python benchmarks/watch_page.py

Milliseconds of the processor, the best of many; the ratio is what can be compared between machines.
"""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rankmuster.collect.deadline import Deadline
from rankmuster.evidence import engine_page
from rankmuster.evidence.blob import Blob
from rankmuster.watch.signals.engine import EngineSignal
from rankmuster.watch.signals.engine_filter import PageFilter
from rankmuster.watch.signals.engine_mapping import tables
from rankmuster.watch.signals.engine_steps import StepTimes

PIECE = 65_536
LOAD = """\
vllm:num_requests_running{engine="0",model_name="lab"} 16.0
vllm:num_requests_waiting{engine="0",model_name="lab"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="lab"} 0.0417
vllm:prompt_tokens_total{engine="0",model_name="lab"} 2048.0
vllm:generation_tokens_total{engine="0",model_name="lab"} 2400.0
vllm:iteration_tokens_total_count{engine="0",model_name="lab"} 2911.0
"""


def page(histograms: int, labels: int = 1) -> bytes:
    """`histograms` of 40 buckets for each of `labels` sets, one of them of step times, and the load."""
    names = ["vllm:inter_token_latency_seconds", *(f"vllm:h{h}_seconds" for h in range(histograms - 1))]
    lines = [
        f'{name}_bucket{{engine="0",le="{b / 50}",model_name="lab",x="{x}"}} {b}.0\n'
        for name in names
        for x in range(labels if name != names[0] else 1)
        for b in range(40)
    ]
    return ("".join(lines) + LOAD).encode()


def best(work: Callable[[], object], runs: int) -> float:
    """Milliseconds of the processor."""
    took = []
    for _ in range(runs):
        begun = time.process_time()
        for _ in range(5):
            work()
        took.append((time.process_time() - begun) / 5)
    return min(took) * 1000


def filtered(data: bytes, names: bool = False) -> int:
    of = PageFilter(KNOWN.pattern, names)
    for start in range(0, len(data), PIECE):
        of.feed(data[start : start + PIECE])
    lines = of.done().lines
    StepTimes(KNOWN.buckets).add(lines)
    return len(engine_page.read(Blob("x", lines), KNOWN.index).observations)


def peak(work: Callable[[], object]) -> float:
    """MiB above what there was."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return most


def poll_cost(data: bytes) -> float:
    """Of this process's threads that poll, with the server's own share taken off."""

    class Handler(BaseHTTPRequestHandler):
        spent = 0.0

        def do_GET(self) -> None:
            begun = time.thread_time()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            Handler.spent += time.thread_time() - begun

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    of = EngineSignal(((url,),), clock=time.monotonic, unix_now=time.time)
    of.poll(Deadline.after(5))
    Handler.spent, begun, runs = 0.0, time.process_time(), 50
    for _ in range(runs):
        of.poll(Deadline.after(5))
    spent = time.process_time() - begun - Handler.spent
    server.shutdown()
    server.server_close()
    return spent / runs * 1000


KNOWN = tables()


def main() -> None:
    heads = ("KiB", "filtered", "+ names", "whole", "ratio", "MiB", "whole", "poll")
    print(f"{'page':>10}" + "".join(f"{head:>9}" for head in heads))
    for name, data in (("ordinary", page(27)), ("large", page(27, 20)), ("huge", page(60, 40))):
        runs = 20 if len(data) < 1 << 20 else 4
        few, all_names = best(lambda d=data: filtered(d), runs), best(lambda d=data: filtered(d, True), runs)
        whole = best(lambda d=data: engine_page.read(Blob("x", d)), runs)
        lean, fat = peak(lambda d=data: filtered(d)), peak(lambda d=data: engine_page.read(Blob("x", d)))
        print(
            f"{name:>10}{len(data) >> 10:9}"
            + "".join(f"{n:9.2f}" for n in (few, all_names, whole, few / whole, lean, fat, poll_cost(data)))
        )


main()
