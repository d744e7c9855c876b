"""Besides Xids the kernel log tells of killed processes, links, PCIe errors and stuck tasks."""

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.kernel_log import READER
from rankmuster.model.kernel import KernelEvent, KernelEventKind, OomKill


def observe(text: str, path: str = "kernel/dmesg.txt"):
    return READER.read(Blob(path, text.encode())).observations


NODE_KILL = (
    "[9.0] python3 invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0\n"
    "[9.1] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
    "task_memcg=/user.slice,task=vllm,pid=4242,uid=0\n"
    "[9.2] Out of memory: Killed process 4242 (vllm) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB\n"
    "[9.9] oom_reaper: reaped process 4242 (vllm), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"
)


def test_one_kill_is_one_observation_however_many_lines_it_takes():
    (kill,) = observe(NODE_KILL)
    assert isinstance(kill, OomKill)
    assert (kill.pid, kill.process, kill.cgroup) == (4242, "vllm", False)


@pytest.mark.parametrize("line", NODE_KILL.splitlines()[1:])
def test_any_one_of_its_lines_is_enough(line):
    (kill,) = observe(line)
    assert (kill.pid, kill.process) == (4242, "vllm")


@pytest.mark.parametrize(
    "text",
    [
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"
        "oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c1,task=python3,pid=77,uid=0",
        "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:2kB",
        "Memory cgroup out of memory: Kill process 77 (python3) score "
        "50 or sacrifice child\nKilled process 77 (python3) total-vm:1kB",
        "Task in /docker/c1 killed as a result of limit of /docker/c1\nKilled process 77 (python3) total-vm:1kB",
    ],
)
def test_a_containers_limit_is_told_from_a_full_node(text):
    (kill,) = observe(text)
    assert (kill.pid, kill.process, kill.cgroup) == (77, "python3", True)


def test_the_cgroup_of_the_task_is_kept_because_it_names_the_pod():
    (kill,) = observe(
        "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/kube/pod-a,task_memcg=/kube/pod-a/c1,task=x,pid=7,uid=0"
    )
    assert kill.memory_cgroup == "/kube/pod-a/c1"


@pytest.mark.parametrize(
    "text",
    ["Out of memory: Killed process 123, UID 48, (httpd).", "Out of memory: Kill process 123 (httpd) score 50 or"],
)
def test_old_kernels(text):
    (kill,) = observe(text)
    assert (kill.pid, kill.process) == (123, "httpd")


def test_who_merely_asked_for_memory_was_not_killed():
    assert observe("[9.0] python3 invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0") == ()


@pytest.mark.parametrize(
    ("text", "kind", "device", "fatal"),
    [
        ("pcieport 0000:00:1c.1: AER: Corrected error received: 0000:00:1c.1", "aer", "0000:00:1c", False),
        (
            "pcieport 0000:00:1c.0: AER: Correctable error message received from 0000:9b:00.0",
            "aer",
            "0000:9b:00",
            False,
        ),
        (
            "nvidia 0000:9b:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer",
            "aer",
            "0000:9b:00",
            True,
        ),
        (
            "nvidia 0000:9b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "aer",
            "0000:9b:00",
            True,
        ),
        (
            "nvidia 0000:9b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
            "aer",
            "0000:9b:00",
            False,
        ),
        ("mlx5_core 0000:ca:00.0 ens1np0: Link down", "link_down", "0000:ca:00", None),
        ("mlx5_core 0000:ca:00.0: Port: 1 Link DOWN", "link_down", "0000:ca:00", None),
        ("mlx5_core 0000:ca:00.0 ens1np0: Link up", "link_up", "0000:ca:00", None),
        ("bnxt_en 0000:ca:00.0 eth3: NIC Link is Down", "link_down", "0000:ca:00", None),
        ("bond0: (slave ens1): link status definitely down, disabling slave", "bond_down", "ens1", None),
        ("bond0: link status definitely down for interface ens1, disabling it", "bond_down", "ens1", None),
        ("bond0: now running without any active interface!", "bond_down", "bond0", True),
        ("mlx5_core 0000:ca:00.0: Port module event: module 0, Cable unplugged", "nic_error", "0000:ca:00", None),
        (
            "mlx5_core 0000:ca:00.0: Port module event[error]: module 0, Cable error, High Temperature",
            "nic_error",
            "0000:ca:00",
            None,
        ),
        (
            "mlx5_core 0000:ca:00.0: poll_health:1000:(pid 0): device's health compromised - reached miss count",
            "nic_error",
            "0000:ca:00",
            True,
        ),
        ("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out", "tx_timeout", "eth0", None),
        (
            "mlx5_core 0000:ca:00.0 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 3 timed out 5120 ms",
            "tx_timeout",
            "eth0",
            None,
        ),
        ("watchdog: Watchdog detected hard LOCKUP on cpu 12", "lockup", None, True),
        ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "lockup", None, None),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", "lockup", None, None),
        ("{1}[Hardware Error]: event severity: fatal", "machine_check", None, True),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "machine_check", None, True),
        (
            "DMAR: [DMA Read NO_PASID] Request device [9b:00.0] fault addr 0xffee [fault reason 0x06]",
            "iommu_fault",
            "0000:9b:00",
            None,
        ),
        (
            "nvidia 0000:9b:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0 address=0x0]",
            "iommu_fault",
            "0000:9b:00",
            None,
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=9b:00.0 domain=0x1 address=0x2 flags=0x0]",
            "iommu_fault",
            "0000:9b:00",
            None,
        ),
        (
            "NVRM: knvlinkUpdatePostRxDetectLinkMask_IMPL: Failed to update Rx Detect Link mask!",
            "nvlink_training",
            None,
            None,
        ),
        (
            "pci 0000:9b:00.0: 8.0 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x4 link at 0000:9a:00.0",
            "pcie_width",
            "0000:9b:00",
            None,
        ),
        ("nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping", "peermem", None, None),
        (
            "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).",
            "gsp_stall",
            "0000:9b:00",
            None,
        ),
        ("Kernel panic - not syncing: Fatal exception", "panic", None, True),
    ],
)
def test_lines_that_bear_on_communication(text, kind, device, fatal):
    (event,) = observe("[12.5] " + text)
    assert isinstance(event, KernelEvent)
    assert (event.kind, event.device, event.fatal) == (KernelEventKind(kind), device, fatal)


@pytest.mark.parametrize(
    ("text", "kind", "process", "pid"),
    [
        (
            "pt_main_thread[99]: segfault at 7f ip 00 sp 00 error 4 in libnccl.so.2[7f+d3]",
            "segfault",
            "pt_main_thread",
            99,
        ),
        ("INFO: task python3:88 blocked for more than 120 seconds.", "hung_task", "python3", 88),
        ("watchdog: BUG: soft lockup - CPU#6 stuck for 48s! [python3:2257218]", "lockup", "python3", 2257218),
    ],
)
def test_lines_that_name_a_process(text, kind, process, pid):
    (event,) = observe(text)
    assert (event.kind.value, event.process, event.pid) == (kind, process, pid)


@pytest.mark.parametrize(
    "text",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
        "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE; OOB eth0:10.0.0.1<0> link down count 0",
        "mlx5_core 0000:ca:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).",
        "usb 1-1: new high-speed USB device",
    ],
)
def test_harmless_lines_and_other_programs_words_are_not_events(text):
    assert observe(text) == ()


def test_the_host_comes_from_the_line_and_only_then_from_the_path():
    text = "Nov 29 10:00:00 a1 kernel: EDAC MC0: 1 CE memory read error\n[9.0] EDAC MC0: 1 CE memory read error"
    assert [o.origin.host for o in observe(text, "node-b2/kernel.log")] == ["a1", "b2"]


def test_a_text_without_kernel_words_is_not_taken():
    assert not READER.recognises(Blob("logs/rank0.log", b"step 1 loss 0.5\n" * 100))
