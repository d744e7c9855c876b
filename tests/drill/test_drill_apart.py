"""What a drill starts runs no code of whoever stands there, names no other instance, and does not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankmuster.drill.apart import ALLOWED, PLACES, Owner, forget
from rankmuster.drill.job_options import variable
from rankmuster.drill.run import _command

PATIENCE = 10.0

KEEPING = """
import os, sys, time
from pathlib import Path
from rankmuster.drill.launch import Launched
kept = Launched([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), Path(sys.argv[1]), tied=True)
print(kept.pid, flush=True)
time.sleep(600)
"""


def test_a_module_in_the_current_folder_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("typer", "secrets", "numpy", "rankmuster"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    status, out, said = _command(["--version"], 60.0)
    assert status == 0, said
    assert out.startswith("rankmuster")
    assert not (tmp_path / "ran").exists()


def test_what_names_another_instance_is_forgotten() -> None:
    env = dict.fromkeys(("RANKMUSTER_INSTANCE", "RANKMUSTER_INCARNATION", ALLOWED, *PLACES, "NCCL_ALGO"), "x")
    forget(env)
    assert env == {"NCCL_ALGO": "x"}
    for name in ("RANKMUSTER_INSTANCE", ALLOWED, "NCCL_RAS_ADDR"):
        with pytest.raises(ValueError, match="leave it out"):
            variable(f"{name}=llm-0")
    assert variable("NCCL_ALGO=Ring") == ("NCCL_ALGO", "Ring")


def test_what_is_tied_to_a_drill_ends_with_it_however_it_ends(tmp_path: Path) -> None:
    drill = subprocess.Popen([sys.executable, "-c", KEEPING, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    assert drill.stdout is not None
    pid = int(drill.stdout.readline())
    owner = Owner(drill.pid)
    assert not owner.gone
    assert _lives(pid)
    drill.send_signal(signal.SIGKILL)
    drill.communicate()
    end = time.monotonic() + PATIENCE
    while _lives(pid):
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.05)
    assert owner.gone


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_nobody_is_gone_of_whom_nothing_was_there() -> None:
    assert Owner(os.getpid()).gone is False
    assert Owner(2**22 + 5).gone
