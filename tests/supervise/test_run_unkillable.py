"""A process that no signal ends: the answer is `node`, with who and where it waits.

The signals are kept from it, since nothing but a broken driver makes a real one; all else is real: a child that sleeps
uninterruptibly (its own child was made by vfork and has not ended), seen in /proc.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from supervised_run import SECONDS, alive

PROGRAM = """
import json, signal, sys, time
from pathlib import Path
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc import Proc
from rankmuster.supervise import operations, processes
from rankmuster.supervise.gpus import GpuUse
from rankmuster.supervise.group import HostGroup
from rankmuster.supervise.settings import RunProfile, RunSettings

folder = Path(sys.argv[1])
sleeper = '''
import ctypes, time
CLONE_VFORK, SIGCHLD, clone = 0x4000, 17, 56
if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:
    time.sleep(1000)
'''
settings = RunSettings(name="stuck", command=(sys.executable, "-c", sleeper), folder=str(folder), evidence=str(folder),
                       profile=RunProfile.NONE, log=str(folder / "log"))
processes.become_subreaper()
spared = {}
def send(stat, number):
    return processes.Sent.SENT if spared else processes.send(stat, number)
gpus = [{0: GpuUse(4, frozenset())}]
group = HostGroup(settings, {}, folder / "stuck.json", lambda text: None, lambda seconds: gpus[-1], send=send)
name = group.start()
proc, launcher = Proc(Path("/proc")), group.record.launcher.pid
while proc.stat(launcher).state != "D":
    time.sleep(0.01)
spared[launcher] = True  # and its child, whose end would wake it
def terminate(operation, seconds):
    return operations.terminate(group, name, operation, Deadline.after(seconds), 0.1, lambda: False)
first = terminate("i/terminate/a", 2.0)
looked = group.look()
beside = operations.start(group, name, "i/start/a", operations.read_wish(None))
spared.clear()
gpus.append({0: GpuUse(70000, frozenset())})
second = terminate("i/terminate/a", 3.0)
gpus.append({0: GpuUse(4, frozenset())})
third = terminate("i/terminate/a", 3.0)
print(json.dumps({
    "launcher": launcher, "state": looked.state.value, "beside": beside.ending.value,
    "answers": [[one.ending.value, one.note, dict(one.data)] for one in (first, second, third)]}))
"""


def test_the_node_is_named_with_the_process_and_where_it_waits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, timeout=SECONDS, check=True, text=True
    )
    said = json.loads(done.stdout)
    first, second, third = said["answers"]
    assert first[0] == "node"
    assert said["launcher"] in first[2]["pids"]
    assert {one["pid"]: one["state"] for one in first[2]["processes"]}[said["launcher"]] == "D"
    assert first[2]["node"] in first[1]
    assert said["state"] == "partly"
    assert said["beside"] == "refused"
    # it is gone now, its memory is not
    assert second[0] == "node"
    assert "GPU 0 has 69996 MiB more" in second[1]
    assert third[0] == "done"
    assert third[2]["gpus_free"] is True
    assert not alive(said["launcher"])
