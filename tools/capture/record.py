"""Runs scenarios on the GPUs of this machine and records what an operator would have: python3 record.py OUT NAME...

Each scenario leaves OUT/<name>/input (the bundle's layout) and truth.json. Needs torch with NCCL and nvidia-ml-py.
Touches no clock, resets nothing, and ends every process it started.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

from scenarios import SCENARIOS

HERE = pathlib.Path(__file__).parent
PAGE = """# HELP vllm:num_requests_running Requests in the running batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="lab"}} {running}.0
# HELP vllm:num_requests_waiting Requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="lab"}} 0.0
# HELP vllm:generation_tokens_total Generated tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="lab"}} {tokens}.0
"""


def ask(port: int, commands: bytes) -> bytes:
    """One RAS reply, read to its end; three tries of one second for the handshake, as several processes listen."""
    error: Exception = OSError("not asked")
    for _ in range(3):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
                connection.sendall(b"CLIENT PROTOCOL 2\n")
                connection.settimeout(1.0)
                connection.recv(64)
                connection.settimeout(12.0)
                connection.sendall(commands)
                reply = b""
                while piece := connection.recv(65536):
                    reply += piece
                return reply
        except OSError as failure:
            error = failure
    raise error


class Recording:
    """One scenario while it runs."""

    def __init__(self, name: str, out: pathlib.Path, gpus: list[int], port: int) -> None:
        self.name, self.spec, self.gpus, self.port = name, SCENARIOS[name], gpus, port
        self.folder = out / name / "input"
        for part in ("ras", "flight", "logs", "nccl", "engine"):
            (self.folder / part).mkdir(parents=True)
        self.tokens = out / name / "tokens"
        self.exits: dict[int, float] = {}
        self.stop = threading.Event()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.started = time.time()

    def start(self) -> None:
        world = len(self.gpus)
        self.environment = {
            "NCCL_NVLS_ENABLE": "0",
            "NCCL_RAS_ENABLE": "1",
            "NCCL_RAS_ADDR": f"localhost:{self.port}",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET,ENV",
            "NCCL_DEBUG_TIMESTAMP_LEVELS": "WARN,INFO",
            "TORCH_FR_BUFFER_SIZE": "2000",
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
            "TORCH_NCCL_ENABLE_TIMING": "1" if self.spec.get("timing", True) else "0",
            "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "4000",
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "40",
        }
        for rank, gpu in enumerate(self.gpus):
            environment = {
                **os.environ,
                **self.environment,
                "NCCL_DEBUG_FILE": str(self.folder / "nccl" / "nccl_%h_%p.log"),
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(self.folder / "flight" / "nccl_trace_rank_"),
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(self.folder.parent / "pipe_"),
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_GPU": str(gpu),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.port + 7),
                "TOKENS": str(self.tokens),
                "SCENARIO": json.dumps({"seconds_total": 60, **self.spec["worker"]}),
            }
            log = (self.folder / "logs" / f"rank{rank}.log").open("wb")
            command = [sys.executable, str(HERE / "worker.py")]
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        if self.spec.get("foreign") is not None:
            code = "import torch,time\nx=torch.randn(8192,8192,device='cuda:%d')\nwhile True: x=(x@x).clamp(-1,1)"
            gpu = self.gpus[self.spec["foreign"]]
            self.foreign = subprocess.Popen([sys.executable, "-c", code % gpu])
        else:
            self.foreign = None
        self.threads = [threading.Thread(target=task) for task in (self.watch, self.pages, self.counters, self.ras)]
        for thread in self.threads:
            thread.start()

    def watch(self) -> None:
        while not self.stop.wait(0.1):
            for rank, process in enumerate(self.processes):
                if rank not in self.exits and process.poll() is not None:
                    self.exits[rank] = time.time()

    def pages(self) -> None:
        while not self.stop.wait(1.2):
            try:
                running, tokens = self.tokens.read_text().split()
            except (OSError, ValueError):
                continue
            page = PAGE.format(running=running, tokens=tokens)
            (self.folder / "engine" / f"{time.time():.3f}.prom").write_text(page)

    def counters(self) -> None:
        import pynvml

        with (self.folder / "gpu-counters.jsonl").open("w") as out:
            while not self.stop.wait(0.6):
                for gpu in self.gpus:
                    handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
                    use = pynvml.nvmlDeviceGetUtilizationRates(handle)
                    fields = pynvml.nvmlDeviceGetFieldValues(handle, [(138, 0xFFFFFFFF), (139, 0xFFFFFFFF)])
                    sample = {
                        "time": time.time(),
                        "host": "192.0.2.2",
                        "gpu": gpu,
                        "sm_util_percent": use.gpu,
                        "memory_util_percent": use.memory,
                        "power_w": pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                        "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                        "nvlink_tx_kib": fields[0].value.ullVal,
                        "nvlink_rx_kib": fields[1].value.ullVal,
                        "pids": [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)],
                    }
                    out.write(json.dumps(sample) + "\n")
                out.flush()

    def ras(self) -> None:
        for wait in self.spec.get("ras_after", (9, 4, 4, 4, 4)):
            if self.stop.wait(wait):
                return
            for form, commands in (("txt", b"VERBOSE STATUS\n"), ("json", b"SET FORMAT json\nVERBOSE STATUS\n")):
                stem = self.folder / "ras" / f"{time.time():.3f}-0"
                try:
                    reply = ask(self.port, commands)
                    body = reply.split(b"\n", 1)[1] if reply.startswith(b"OK") else reply
                    stem.with_name(stem.name + f".{form}").write_bytes(body)
                except OSError as error:
                    stem.with_name(stem.name + ".error.txt").write_text(repr(error))

    def finish(self) -> None:
        if self.spec.get("pipe"):
            for pipe in self.folder.parent.glob("pipe_*"):
                try:
                    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                    os.write(descriptor, b"1\n")
                    os.close(descriptor)
                except OSError as error:
                    print(self.name, pipe.name, error)
            # A dump with stacks takes its time: five seconds and more for 2,000 entries.
            time.sleep(9)
        last_look = time.time()
        codes = [process.poll() for process in self.processes]
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=15)
        for process in (*self.processes, self.foreign):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        facts = {
            "instance": "llm-0",
            "world_size": len(self.gpus),
            "started_at": self.started,
            "last_look": last_look,
            "processes": [
                {
                    "rank": rank,
                    "pid": process.pid,
                    "host": "192.0.2.2",
                    "gpu": gpu,
                    "exit_code": code,
                    "exited_at": self.exits.get(rank) if code is not None else None,
                }
                for rank, (process, gpu, code) in enumerate(zip(self.processes, self.gpus, codes, strict=True))
            ],
            "environment": self.environment,
        }
        (self.folder / "instance.json").write_text(json.dumps(facts, indent=1))
        (self.folder.parent / "truth.json").write_text(json.dumps(self.spec["truth"], indent=1))
        self.tokens.unlink(missing_ok=True)
        for pipe in self.folder.parent.glob("pipe_*"):
            pipe.unlink()


def main() -> None:
    import pynvml

    pynvml.nvmlInit()
    out = pathlib.Path(sys.argv[1])
    waiting = list(sys.argv[2:]) or list(SCENARIOS)
    port = 21028
    while waiting:
        name = waiting.pop(0)
        batch = [name]
        if len(SCENARIOS[name]["gpus"]) == 2:
            # A second pair of GPUs takes a second job of two ranks.
            mate = next((other for other in waiting if len(SCENARIOS[other]["gpus"]) == 2), None)
            if mate is not None:
                waiting.remove(mate)
                batch.append(mate)
        recordings = []
        for index, one in enumerate(batch):
            gpus = [gpu + 2 * index for gpu in SCENARIOS[one]["gpus"]]
            recordings.append(Recording(one, out, gpus, port))
            port += 50
        for recording in recordings:
            recording.start()
        time.sleep(max(SCENARIOS[one].get("seconds", 20 if SCENARIOS[one].get("pipe") else 27) for one in batch))
        for recording in recordings:
            recording.finish()
        print("done", batch, flush=True)


if __name__ == "__main__":
    main()
