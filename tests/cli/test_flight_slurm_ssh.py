"""The commands of docs/flight-at-scale.md, run as they stand there by a real Slurm of two nodes and a real sshd."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from flight_document import BLOCKS, dumps_in, with_program

SLURM = ("slurmctld", "slurmd", "srun", "sbatch", "squeue", "sinfo", "scancel", "munged")


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return dumps_in(tmp_path / "dumps")


def run_block(block: str, dumps: Path, home: Path, environment: Mapping[str, str]) -> str:
    """A block of the document, with this test's folder for that of the dumps; what its last command says."""
    text = re.sub(r"DUMPS=\S+", f"DUMPS={dumps}", block)
    assert text != block
    done = subprocess.run(
        ["bash", "-c", text],
        env={**with_program(**environment), "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def eventually(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about within {seconds} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """Two nodes of Slurm on this machine, with a job that holds both: its environment."""
    missing = [name for name in SLURM if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no Slurm to test with ({', '.join(missing) or 'it needs root'})")
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        yield from _slurm_in(Path(folder))


def _slurm_in(base: Path) -> Iterator[dict[str, str]]:
    name = socket.gethostname().partition(".")[0]
    for below in ("munge", "state", "spool/n1", "spool/n2"):
        (base / below).mkdir(parents=True)
    base.chmod(0o755)  # munge refuses a socket that others cannot reach
    (base / "munge").chmod(0o700)
    (base / "munge" / "key").write_bytes(os.urandom(128))
    (base / "munge" / "key").chmod(0o400)
    control, first, second = free_port(), free_port(), free_port()
    configuration = base / "slurm.conf"
    configuration.write_text(
        f"""ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={control}
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
NodeName=n1 NodeHostname={name} NodeAddr=127.0.0.1 Port={first} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={name} NodeAddr=127.0.0.1 Port={second} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    munge = [
        *("munged", "--foreground", "--force", f"--key-file={base}/munge/key", f"--socket={base}/munge.sock"),
        *(f"--pid-file={base}/munge/pid", f"--seed-file={base}/munge/seed", f"--log-file={base}/munge/log"),
    ]
    commands = [munge, ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"]]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (base / f"{command[0]}.out").open("ab") as out:
                processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            if command is munge:
                eventually((base / "munge.sock").exists, "munged's socket")

        def idle() -> bool:
            asked = ["sinfo", "--noheader", "--format=%D %t"]
            done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=30)
            return done.stdout.split() == ["2", "idle"]

        eventually(idle, "two idle nodes")
        asked = ["sbatch", "--parsable", "--nodes=2", "--output=/dev/null", "--wrap", "srun sleep 600"]
        submitted = subprocess.run(
            asked, env=environment, capture_output=True, text=True, timeout=30, check=True, cwd=base
        )
        number = submitted.stdout.strip()

        def steps() -> bool:
            done = subprocess.run(
                ["squeue", "--steps", "--noheader"], env=environment, capture_output=True, text=True, timeout=30
            )
            return f"{number}.0" in done.stdout

        eventually(steps, "the step that hangs")
        yield {"SLURM_CONF": str(configuration), "JOB": number}
        subprocess.run(["scancel", "--signal=KILL", "--full", number], env=environment, timeout=30, check=False)
        subprocess.run(["scancel", number], env=environment, timeout=30, check=False)
        eventually(lambda: not steps(), "the end of the step")
    finally:
        stop(processes[::-1])


@pytest.mark.parametrize("place", [place for place, block in enumerate(BLOCKS) if "srun" in block])
def test_slurm(slurm: dict[str, str], dumps: Path, tmp_path: Path, place: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said = run_block(BLOCKS[place], dumps, home, slurm)
    assert "culprit rank 2" in said
    assert len(list((home / "summaries").glob("*.rfs"))) == 2


def test_ssh(dumps: Path, tmp_path: Path) -> None:
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(server).exists() or shutil.which("ssh") is None or os.geteuid() != 0:
        pytest.skip("no sshd to test with")
    home, base = tmp_path / "home", tmp_path / "ssh"
    for folder in (home, base):
        folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", base / key], check=True, timeout=30)
    (base / "authorized_keys").write_bytes((base / "user.pub").read_bytes())
    port = free_port()
    (base / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {base}/host\nAuthorizedKeysFile {base}/authorized_keys\n"
        f"PidFile {base}/pid\nStrictModes no\nUsePAM no\nSetEnv PATH={with_program()['PATH']}\n"
    )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks its unprivileged child in
    wrapper = base / "bin" / "ssh"
    wrapper.parent.mkdir()
    options = (
        f"-p {port} -i {base}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    )
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -q {options} -o HostName=127.0.0.1 "$@"\n')
    wrapper.chmod(0o755)
    (home / "nodes.txt").write_text("n1\nn2\n")
    with (base / "log").open("wb") as log:
        process = subprocess.Popen([server, "-D", "-e", "-f", base / "sshd_config"], stdout=log, stderr=log)
    try:
        eventually(lambda: b"listening" in (base / "log").read_bytes(), "sshd")
        path = f"{wrapper.parent}:{with_program()['PATH']}"
        (block,) = [block for block in BLOCKS if "ssh -n" in block]
        text = f"export PATH={path}\n{block}"
        said = run_block(text, dumps, home, {})
    finally:
        stop([process])
    assert "culprit rank 2" in said
    assert sorted(file.name for file in (home / "summaries").iterdir()) == ["n1.rfs", "n2.rfs"]
