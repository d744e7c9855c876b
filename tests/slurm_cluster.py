"""A real Slurm of several nodes on this machine: Debian's slurm-wlm, each node a slurmd with a port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "squeue", "sinfo", "scancel", "munged")


def missing() -> str:
    """What keeps a Slurm from running here; empty where nothing does."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no Slurm to test with ({', '.join(absent)})"
    return "" if os.geteuid() == 0 else "no Slurm to test with (it needs root)"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def eventually(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about within {seconds} s"
        time.sleep(0.1)


class Cluster:
    """`environment`: with which srun and its like find it."""

    def __init__(self, environment: Mapping[str, str], slurmds: Mapping[str, subprocess.Popen[bytes]]) -> None:
        self.environment = dict(environment)
        self._slurmds = slurmds

    def ask(self, *command: str, seconds: float = 30.0) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=seconds)
        return done.stdout

    def kill_node(self, name: str) -> None:
        self._slurmds[name].kill()
        self._slurmds[name].wait()


@contextmanager
def cluster(nodes: Sequence[str], cpus: int = 1) -> Iterator[Cluster]:
    """A cluster whose nodes are idle. It is gone afterwards, with whatever ran on it."""
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        yield from _in(Path(folder), nodes, cpus)


def _in(base: Path, nodes: Sequence[str], cpus: int) -> Iterator[Cluster]:
    name = socket.gethostname().partition(".")[0]
    for below in ("munge", "state", *(f"spool/{node}" for node in nodes)):
        (base / below).mkdir(parents=True)
    base.chmod(0o755)  # munge refuses a socket that others cannot reach
    (base / "munge").chmod(0o700)
    (base / "munge" / "key").write_bytes(os.urandom(128))
    (base / "munge" / "key").chmod(0o400)
    lines = [
        f"NodeName={node} NodeHostname={name} NodeAddr=127.0.0.1 Port={free_port()} CPUs={cpus} State=UNKNOWN"
        for node in nodes
    ]
    configuration = base / "slurm.conf"
    configuration.write_text(
        f"""ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={base}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool/%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd.%n.pid
SlurmctldLogFile={base}/slurmctld.log
SlurmdLogFile={base}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
{chr(10).join(lines)}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = [
        *("munged", "--foreground", "--force", f"--key-file={base}/munge/key", f"--socket={base}/munge.sock"),
        *(f"--pid-file={base}/munge/pid", f"--seed-file={base}/munge/seed", f"--log-file={base}/munge/log"),
    ]
    processes: list[subprocess.Popen[bytes]] = []
    slurmds: dict[str, subprocess.Popen[bytes]] = {}

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (base / f"{command[0]}.out").open("ab") as out:
            processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        return processes[-1]

    try:
        start(munge)
        eventually((base / "munge.sock").exists, "munged's socket")
        start(["slurmctld", "-D", "-c"])
        for node in nodes:
            slurmds[node] = start(["slurmd", "-D", "-N", node])
        made = Cluster(environment, slurmds)
        wanted = [str(len(nodes)), "idle"]
        eventually(lambda: made.ask("sinfo", "--noheader", "--format=%D %t").split() == wanted, "idle nodes")
        yield made
        made.ask("scancel", "--signal=KILL", "--full", "--state=RUNNING", "--user=root")
        made.ask("scancel", "--user=root")
    finally:
        for process in processes[::-1]:
            process.terminate()
        for process in processes[::-1]:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
