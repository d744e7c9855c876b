"""Sub-kinds of `performance_degradation`: work advances, more slowly than it did or than it should."""

from __future__ import annotations

from rankmuster.diagnose.catalogue_entry import TIMEOUT_RULE, Entry
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.plane import Plane

RAS_SPEED = (Plane.RAS, "counts without a rate: two looks say that it moves, not how well")
KERNEL_SPEED = (Plane.KERNEL, "speaks only where hardware reports an error")
TIMEOUT_SLOW = f"It may be right: the group is stable and slow. {TIMEOUT_RULE}"

ENTRIES = (
    Entry(
        Subkind.PERSISTENT,
        "Steps take longer than before, all the time. Often one rank arrives last in every collective and the others "
        "wait for it.",
        (
            (Subkind.TAIL, "there most steps are as fast as ever"),
            (Subkind.WRONG_PATH, "there all ranks are slow alike, on a path that can do no better"),
            (Subkind.MISSING_ENTER, "there nothing moves between two looks"),
            (
                FaultClass.HEALTHY,
                "in launch-bound health one rank is last, too, by microseconds: its share of wall "
                "time decides, not how often",
            ),
        ),
        (
            (Plane.FLIGHT, "with timing: the rank whose collectives are shortest is the one the others waited for"),
            (Plane.ENGINE, "tokens per second against its own earlier rate"),
            (Plane.HARDWARE, "clocks, power and utilisation of one GPU that differ from its peers'"),
        ),
        (RAS_SPEED, KERNEL_SPEED, (Plane.FLIGHT, "without timing: only the distance between enqueues")),
        (
            "CPU throttling, a noisy neighbour, wrong CPU affinity",
            "a GPU held at low clocks by power or temperature",
            "slow storage or logging in one worker",
        ),
        (
            "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE",
            "cat /sys/fs/cgroup/cpu.stat        # nr_throttled, in the container",
            "py-spy top --pid PID",
        ),
        TIMEOUT_SLOW,
    ),
    Entry(
        Subkind.TAIL,
        "Most steps are fast and a few are very slow: the median is right, the high percentiles are not.",
        (
            (Subkind.PERSISTENT, "there the median moved too"),
            (FaultClass.HEALTHY, "a dump with stacks, a first use of a shape or a long prefill slow single steps"),
        ),
        (
            (Plane.FLIGHT, "with timing: a few long ones among many short"),
            (Plane.ENGINE, "latency histograms whose upper buckets fill"),
        ),
        (RAS_SPEED, KERNEL_SPEED, (Plane.HARDWARE, "samples about every second miss a pause of milliseconds")),
        (
            "garbage collection, page reclaim, a cron job or a backup",
            "retransmissions on a network with some loss",
            "prefill that gets between decode steps",
        ),
        ("perf sched timehist -p PID", "ethtool -S INTERFACE | grep -iE 'retrans|discard|pause'"),
        TIMEOUT_SLOW,
    ),
    Entry(
        Subkind.DRIFT,
        "A node's measured bandwidth or latency left the distribution of its own kind: same hardware, same fabric, "
        "same versions, same message size.",
        (
            (Subkind.PERSISTENT, "there the job is slow; here a benchmark is, with no job"),
            (Subkind.WRONG_PATH, "there the log shows which path is wrong"),
        ),
        (
            (Plane.TOPOLOGY, "the fingerprint, and its history of measured results"),
            (Plane.HARDWARE, "error and replay counters that rise, links that trained narrower"),
        ),
        (
            (Plane.FLIGHT, "sees operations, not what the node can do"),
            RAS_SPEED,
            (Plane.ENGINE, "load changes more than a node drifts"),
        ),
        ("a link that retrained narrower", "firmware or driver that changed", "dust, heat, an ageing cable"),
        ("nvidia-smi nvlink -s; nvidia-smi -q | grep -A3 'Link Width'", "all_reduce_perf -b 8 -e 1G -f 2 -g 8"),
        "It is not the question: nothing times out.",
    ),
    Entry(
        Subkind.WRONG_PATH,
        "Traffic works and takes a poorer path than the hardware has: shared memory instead of NVLink, sockets instead "
        "of RDMA, RDMA through host memory.",
        (
            (Subkind.PERSISTENT, "there the path is right and something on it is slow"),
            (Subkind.DRIFT, "there the path is right and measures less than its kind"),
            (Subkind.FABRIC_NOT_READY, "there init fails; here NCCL fell back"),
        ),
        (
            (
                Plane.NCCL_LOG,
                "`via SHM` between NVLink GPUs, `via NET/Socket` beside RDMA adapters, no `/GDRDMA`; "
                "NCCL_P2P_* and NCCL_NET_* settings it prints",
            ),
            (Plane.TOPOLOGY, "what the machine offers"),
            (Plane.HARDWARE, "NVLink or RDMA bytes that stay near zero while work advances"),
        ),
        (
            (Plane.FLIGHT, "does not know the path"),
            RAS_SPEED,
            (Plane.ENGINE, "a job that was always slow has no better past"),
        ),
        (
            "NCCL_P2P_LEVEL, NCCL_P2P_DISABLE or NCCL_IB_DISABLE left over from a test",
            "containers with separate /dev/shm or process namespaces",
            "PCIe access control or an IOMMU; nvidia-peermem not loaded",
        ),
        (
            "grep -h ' via ' nccl/*.log | sed 's/.* via/via/' | sort | uniq -c",
            "nvidia-smi topo -m",
            "tr '\\0' '\\n' < /proc/PID/environ | grep NCCL_",
        ),
        "It is not the question: mend the path.",
    ),
)
