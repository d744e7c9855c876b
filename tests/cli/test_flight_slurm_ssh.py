"""The commands of docs/flight-at-scale.md, run as they stand there by a real Slurm of two nodes and a real sshd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from flight_document import BLOCKS, dumps_in, with_program

from slurm_cluster import cluster, eventually, free_port, missing


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


def stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """Two nodes of Slurm on this machine, with a job that holds both: its environment."""
    if missing():
        pytest.skip(missing())
    with cluster(("n1", "n2")) as made:
        wrapped = ("--output=/dev/null", "--chdir=/", "--wrap", "srun sleep 600")
        number = made.ask("sbatch", "--parsable", "--nodes=2", *wrapped).strip()
        eventually(lambda: f"{number}.0" in made.ask("squeue", "--steps", "--noheader"), "the step that hangs")
        yield {"SLURM_CONF": made.environment["SLURM_CONF"], "JOB": number}


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
