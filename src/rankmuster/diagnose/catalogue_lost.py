"""Sub-kinds of `process_or_device_lost`: somebody the others need is gone, or does not run."""

from __future__ import annotations

from rankmuster.diagnose.catalogue_entry import Entry
from rankmuster.model.fault import Subkind
from rankmuster.model.plane import Plane

FLIGHT_DEAD = (Plane.FLIGHT, "a dead rank leaves no dump, and a missing dump alone proves nothing")
ENGINE_STOP = (Plane.ENGINE, "sees that work stopped, not for whom it waits")
HARDWARE_DEAD = (Plane.HARDWARE, "an idle GPU looks the same under a dead, a stopped and a waiting process")

ENTRIES = (
    Entry(
        Subkind.EXITED,
        "A rank's process ended by itself, with any code, 0 included, while the others still need it.",
        (
            (Subkind.KILLED, "there a signal ended it (exit code -9 or 137, …)"),
            (Subkind.MISSING_ENTER, "there the process lives"),
            (Subkind.HOST_LOST, "there all processes of the host are gone at once"),
        ),
        (
            (Plane.PLATFORM, "exit code and time, before the first time-out"),
            (Plane.RAS, "the process missing at once, without a query time-out; dead after about 60 s"),
            (Plane.FRAMEWORK_LOG, "its last words; the engine's `died unexpectedly`"),
            (Plane.NCCL_LOG, "peers: `Connection closed by remote peer`"),
        ),
        (FLIGHT_DEAD, HARDWARE_DEAD, ENGINE_STOP),
        (
            "an exception in one worker",
            "a worker that believed the work was done",
            "an exit after the first time-out is a consequence, and not this",
        ),
        (
            "tail -50 logs/RANK*",
            "kubectl get pod POD -o jsonpath='{..lastState.terminated}'",
            "sacct -j JOB -o JobID,State,ExitCode",
        ),
    ),
    Entry(
        Subkind.KILLED,
        "A signal ended a rank's process: SIGKILL (often the OOM killer), SIGSEGV, SIGBUS.",
        (
            (Subkind.EXITED, "there it ended by itself"),
            (Subkind.GPU_LOST, "a lost GPU kills its process, too: the Xid comes first"),
            (Subkind.LINK_ERROR, "peers then report network errors: those came after"),
        ),
        (
            (Plane.PLATFORM, "exit code -9, 137, -11, 139, -7, 135; OOMKilled"),
            (Plane.KERNEL, "`Killed process PID`, `segfault at`"),
            (Plane.RAS, "the process missing at once"),
            (Plane.FRAMEWORK_LOG, "`died unexpectedly (exit code: -9)`"),
        ),
        (FLIGHT_DEAD, HARDWARE_DEAD, ENGINE_STOP),
        (
            "memory of the container or the host ran out",
            "an operator or supervisor that killed one process",
            "a crash in a native library; SIGBUS from a full /dev/shm",
        ),
        (
            "dmesg -T | grep -iE 'oom|killed process|segfault'",
            "cat /sys/fs/cgroup/memory.events",
            "coredumpctl info PID",
        ),
    ),
    Entry(
        Subkind.UNRESPONSIVE,
        "The process exists and does not run: stopped, frozen, or stuck in the kernel. It answers nobody.",
        (
            (Subkind.MISSING_ENTER, "there it runs: RAS and the dump pipe get their answer"),
            (Subkind.KILLED, "there the process table has it no more; RAS reports it at once, not after a time-out"),
            (Subkind.HOST_LOST, "there nothing of the host answers"),
        ),
        (
            (Plane.RAS, "the process missing after a query time-out of some 5 s; connections accepted, not answered"),
            (Plane.FLIGHT, "no dump of this rank while all others left theirs"),
            (Plane.PLATFORM, "still listed, without an exit code"),
            (Plane.KERNEL, "`blocked for more than 120 seconds`, soft lockups"),
        ),
        (
            HARDWARE_DEAD,
            ENGINE_STOP,
            (Plane.NCCL_LOG, "a stopped process writes nothing, and its connections stay open"),
        ),
        (
            "SIGSTOP, a debugger, a frozen cgroup",
            "uninterruptible sleep in a driver or on a network file system",
            "a host that swaps or has no CPU time for it",
        ),
        (
            "grep -E 'State|SigQ' /proc/PID/status",
            "cat /proc/PID/stack /proc/PID/wchan",
            "cat /sys/fs/cgroup/.../cgroup.freeze",
        ),
    ),
    Entry(
        Subkind.GPU_STALLED,
        "A rank enqueued the collective and its GPU does not come to it: an earlier kernel on its stream does not end.",
        (
            (Subkind.MISSING_ENTER, "there the rank has not issued it"),
            (Subkind.ALL_ENTERED_NONE_LEFT, "there every GPU began it; needs timing (`started`) to be told apart"),
            (Subkind.GPU_LOST, "there the driver reports the device"),
        ),
        (
            (
                Plane.FLIGHT,
                "with timing: `scheduled` on this rank where its peers are `started`; or its peers finished "
                "an operation that it has not",
            ),
            (Plane.HARDWARE, "another level of power or memory traffic than the GPUs that only spin"),
        ),
        (
            (Plane.RAS, "equal counts: the host did launch it"),
            (Plane.FLIGHT, "without timing: `scheduled` everywhere"),
            (Plane.KERNEL, "no Xid as long as the kernel runs"),
            ENGINE_STOP,
        ),
        (
            "a kernel that loops or waits on a flag that nobody sets",
            "a host-side callback or event that blocks the stream",
            "a GPU that hangs before its Xid (Xid 8 or 109 may follow)",
        ),
        (
            "py-spy dump --native --pid PID",
            "nvidia-smi dmon -s pucm",
            "cuda-gdb --pid PID        # may end the process",
        ),
    ),
    Entry(
        Subkind.GPU_LOST,
        "The driver lost or gave up a GPU: fallen off the bus, uncorrectable memory, a fatal NVLink or firmware error.",
        (
            (Subkind.KILLED, "there no Xid precedes the end"),
            (Subkind.GPU_STALLED, "there the driver reports nothing"),
            (Subkind.FABRIC_NOT_READY, "there the GPUs answer and the fabric does not"),
        ),
        (
            (Plane.KERNEL, "Xid 79, 48, 74, 95, 109, 119, 149, …; SXid; recovery action in Xid 154"),
            (Plane.HARDWARE, "the GPU no longer listed, `GPU is lost`, Unknown Error"),
            (Plane.FRAMEWORK_LOG, "CUDA errors on one rank first"),
        ),
        ((Plane.RAS, "the process may live on with a dead context"), FLIGHT_DEAD, ENGINE_STOP),
        (
            "power, heat or a seat in the slot",
            "memory that wears out",
            "an NVLink bridge, cable or switch",
            "driver or firmware",
        ),
        (
            "dmesg -T | grep -E 'NVRM|Xid|SXid'",
            "timeout 45 nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE",
            "dcgmi diag -r 2        # on the fenced node",
        ),
    ),
    Entry(
        Subkind.HOST_LOST,
        "A whole host is gone: crash, power, reboot, or cut off from everybody.",
        (
            (Subkind.PATH_LOST, "there the host answers its own side"),
            (Subkind.UNRESPONSIVE, "there other processes of the host answer"),
            (Subkind.KILLED, "there the host lives"),
        ),
        (
            (Plane.PLATFORM, "node NotReady, unreachable, rebooted; all its pods at once"),
            (Plane.RAS, "all processes of one host missing, seen from every other host"),
            (Plane.KERNEL, "a panic or lockup in the console log; a new boot id"),
        ),
        (
            (Plane.FLIGHT, "no dump from the host; the others only show whom they wait for"),
            (Plane.HARDWARE, "its samples end"),
            (Plane.NCCL_LOG, "a powered-off host closes no connection: peers notice late"),
        ),
        ("power supply or kernel panic", "preemption or maintenance by the platform", "the management network"),
        (
            "kubectl get node NODE; kubectl get events --field-selector involvedObject.name=NODE",
            "ipmitool -H BMC sel elist | tail",
            "last -x reboot | head",
        ),
    ),
)
