"""RAS of an instance in another network namespace: entered where that is permitted, said where it is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_server import FakeServer, era
from ras_scene import Stage, ready

from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.ras.namespace import Side, network_of

HERE = Path(__file__).parent

_INSIDE = """
import sys
sys.path.insert(0, sys.argv[1])
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # what `ip link set lo up` does
    fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
from fake_server import FakeServer, era
with FakeServer(era("2.30.7")) as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def _may_unshare() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "-n", "true"], capture_output=True).returncode == 0


needs_unshare = pytest.mark.skipif(not _may_unshare(), reason="no new network namespace may be made here")


@pytest.fixture
def elsewhere():
    """(child, port): a fake server in a network namespace of its own."""
    child = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-c", _INSIDE, str(HERE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    port = int(child.stdout.readline())
    yield child, port
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()


def _stage(tmp_path: Path, child: subprocess.Popen[str], port: int) -> Stage:
    stage = Stage(tmp_path, port)
    stage.proc = tmp_path / "tree"  # the only process of the tree is the child, under the number of the instance
    stage.proc.mkdir()
    (stage.proc / "71").symlink_to(f"/proc/{child.pid}")
    return stage


@needs_unshare
def test_the_service_of_another_namespace_is_asked_there(tmp_path, elsewhere):
    child, port = elsewhere
    stage = _stage(tmp_path, child, port)
    outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.DONE, outcome
    assert stage.replies() == [era("2.30.7").json] * 2
    assert json.loads(stage.record())["network"] == "elsewhere"
    assert network_of(Path("/proc"), os.getpid()).side is Side.HERE  # this program itself never moved


_WITHOUT_PRIVILEGE = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from pathlib import Path
import ras_scene
stage = ras_scene.Stage(Path(sys.argv[2]), int(sys.argv[4]))
stage.proc = Path(sys.argv[3])
outcome = stage.collect(ras_scene.ready(stage.scene()))
print(json.dumps([outcome.ending.value, outcome.note]))
"""
# PR_CAPBSET_DROP of CAP_SYS_ADMIN (<linux/prctl.h>, <linux/capability.h>); what is dropped is gone after the next exec.
_DROP = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


@needs_unshare
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a privilege to drop")
def test_a_namespace_that_may_not_be_entered_is_denied_with_the_remedy(tmp_path, elsewhere):
    child, port = elsewhere
    stage = _stage(tmp_path, child, port)
    (tmp_path / "again").mkdir()
    again = [_WITHOUT_PRIVILEGE, str(HERE), str(tmp_path / "again"), str(stage.proc), str(port)]
    done = subprocess.run(
        [sys.executable, "-c", _DROP, *again],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    ending, note = json.loads(done.stdout)
    assert ending == "denied", note
    assert "another network namespace" in note
    assert "kubectl exec" in note
    assert "CAP_SYS_ADMIN" in note


def test_a_namespace_that_cannot_be_looked_at_is_said_and_the_own_is_tried(tmp_path):
    with FakeServer(era("2.30.7")) as server:
        stage = Stage(tmp_path, server.port)  # its tree of processes holds no namespaces
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.DONE
    assert any("cannot be looked at" in warning for warning in outcome.warnings)


def test_what_is_no_namespace_is_denied(tmp_path):
    stage = Stage(tmp_path, 1)
    (stage.proc / "71" / "ns").mkdir()
    (stage.proc / "71" / "ns" / "net").write_text("not a namespace")
    outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.DENIED
    assert network_of(Machine().proc, os.getpid()).side is Side.HERE
