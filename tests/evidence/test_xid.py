"""Whatever form the driver's line has, the operator gets code, GPU, process and whether it is the cause."""

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.kernel_log import READER
from rankmuster.model.kernel import GpuAfter, GpuUuid, SXid, Xid


def read(text: str, path: str = "kernel/dmesg.txt"):
    return READER.read(Blob(path, text.encode()))


def xids(text: str) -> list[Xid]:
    return [o for o in read(text).observations if isinstance(o, Xid)]


@pytest.mark.parametrize(
    ("line", "code", "bus", "pid", "process"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", 79, "0000:1b:00", None, None),
        (
            "NVRM: Xid (PCI:0000:1B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen",
            79,
            "0000:1b:00",
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 43, pid=4711, name=pt_main_thread, Ch 00000008",
            43,
            "0000:1b:00",
            4711,
            "pt_main_thread",
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 63, pid=88, Row Remapper: New row marked for remapping",
            63,
            "0000:1b:00",
            88,
            None,
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00", None, None),
        ("NVRM: Xid (PCI:0018:01:00): 154, GPU recovery action changed", 154, "0018:01:00", None, None),
        ("NVRM: Xid (PCI:0000:05:00): 99999, unknown error", 99999, "0000:05:00", None, None),
    ],
)
def test_every_form_of_the_line_names_the_gpu_and_the_process(line, code, bus, pid, process):
    (xid,) = xids(line)
    assert (xid.code, xid.bus_id, xid.pid, xid.process) == (code, bus, pid, process)


@pytest.mark.parametrize("mig", ["GPU-I:05", "GPU-I:05 GPU-CI:02"])
def test_a_mig_partition_inside_the_parentheses_does_not_hide_the_gpu(mig):
    (xid,) = xids(f"NVRM: Xid (PCI:0000:01:00 {mig}): 94, pid=7, name=python3, Contained: SM (0x1). RST: No, D-RST: No")
    assert (xid.code, xid.bus_id, xid.mig, xid.after) == (94, "0000:01:00", mig, GpuAfter.OK)


def test_a_memory_error_that_asks_for_a_drain_leaves_a_gpu_in_need_of_a_reset():
    (xid,) = xids("NVRM: Xid (PCI:0000:01:00): 94, pid=7, Contained: CE User Channel (0x9). RST: No, D-RST: Yes")
    assert xid.after is GpuAfter.RESET


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
        "NVRM: The NVIDIA GPU 0000:18:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
        "[   10.5] NVRM: The NVIDIA GPU 0000:18:00.0#012NVRM: "
        "(PCI ID: 10de:2330)#012NVRM: fallen off the bus and is not",
    ],
)
def test_a_lost_gpu_is_an_xid_79_also_where_the_driver_does_not_say_xid(text):
    (xid,) = xids(text)
    assert (xid.code, xid.bus_id, xid.after, xid.secondary) == (79, "0000:18:00", GpuAfter.LOST, False)


def test_the_sentence_that_follows_an_xid_79_is_not_a_second_loss():
    text = (
        "[100.1] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n"
        "[100.2] NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.\n"
        "[100.3] NVRM: GPU 0000:2a:00.0: GPU has fallen off the bus.\n"
    )
    assert [x.bus_id for x in xids(text)] == ["0000:18:00", "0000:2a:00"]


def test_the_uuid_line_ties_an_address_to_a_gpu():
    reading = read("[7.5] NVRM: GPU at PCI:0000:9B:00: GPU-11111111-2222-3333-4444-555555555555")
    (uuid,) = reading.observations
    assert isinstance(uuid, GpuUuid)
    assert (uuid.bus_id, uuid.uuid) == ("0000:9b:00", "GPU-11111111-2222-3333-4444-555555555555")


def test_nvlink5_lines_carry_severity_link_and_where_to_look():
    peer, vendor = xids(
        "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)\n"
        "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  "
        "Nonfatal   XC1 i0 Link -1 (0x028025c6 0x00000000 0x00000000)\n"
    )
    assert (peer.fatal, peer.link, peer.lead, peer.after) == (True, 1, "peer device", GpuAfter.RESET)
    assert (vendor.fatal, vendor.link, vendor.lead, vendor.after) == (False, None, "host", GpuAfter.OK)


def test_the_recovery_action_is_the_new_one():
    (xid,) = xids(
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action "
        "changed from 0x4 (Drain and Reset) to 0x2 (Node Reboot Required)"
    )
    assert (xid.recovery_action, xid.after, xid.secondary) == ("Node Reboot Required", GpuAfter.UNUSABLE, True)


def test_a_dead_link_is_the_cause_and_the_clean_up_on_every_gpu_is_not():
    found = xids(
        "kernel: NVRM: Xid (PCI:0000:c3:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 02 (0x025001c4 0x00000000)\n"
        "kernel: NVRM: Xid (PCI:0000:d1:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 03 (0x00000004 0x80000000)\n"
        "kernel: NVRM: Xid (PCI:0000:c3:00): 45, pid=4100, name=python3, Ch 00000009 caused by previous Xid 149\n"
        "kernel: NVRM: Xid (PCI:0000:d1:00): 45, pid=4101, name=python3, Ch 0000000a\n"
    )
    assert [(x.code, x.bus_id) for x in found if not x.secondary] == [(149, "0000:c3:00")]
    assert found[2].caused_by == 149


@pytest.mark.parametrize(
    ("first", "second", "follows"),
    [
        ((79, "1b"), (119, "1b"), True),
        ((79, "1b"), (119, "2a"), False),
        ((48, "1b"), (63, "1b"), True),
        ((48, "1b"), (94, "1b"), True),
        ((48, "1b"), (171, "1b"), True),
        ((48, "1b"), (94, "2a"), False),
        ((13, "1b"), (43, "1b"), True),
        ((74, "1b"), (43, "1b"), False),
        ((79, "1b"), (137, "2a"), True),
        ((13, "1b"), (31, "1b"), False),
    ],
)
def test_what_follows_from_another_xid_is_secondary(first, second, follows):
    lines = [f"[10.{i}] NVRM: Xid (PCI:0000:{bus}:00): {code}, text" for i, (code, bus) in enumerate((first, second))]
    cause, consequence = xids("\n".join(lines))
    assert not cause.secondary
    assert consequence.secondary is follows


def test_an_xid_an_hour_later_is_its_own_cause():
    _, later = xids("[10.0] NVRM: Xid (PCI:0000:1b:00): 48, x\n[3700.0] NVRM: Xid (PCI:0000:1b:00): 94, x\n")
    assert not later.secondary


def test_hosts_in_one_log_do_not_explain_each_other():
    _, other = xids(
        "Nov 29 10:00:00 a1 kernel: NVRM: Xid (PCI:0000:1b:00): 48, "
        "x\nNov 29 10:00:01 a2 kernel: NVRM: Xid (PCI:0000:1b:00): 94, x\n"
    )
    assert (other.origin.host, other.secondary) == ("a2", False)


def test_a_clean_up_alone_is_not_called_secondary_and_with_company_it_is():
    assert [x.secondary for x in xids("NVRM: Xid (PCI:0000:1b:00): 45, pid=1, Ch 1")] == [False]
    both = xids("NVRM: Xid (PCI:0000:1b:00): 45, pid=1, Ch 1\nNVRM: Xid (PCI:0000:2a:00): 31, pid=2, MMU Fault")
    assert [x.secondary for x in both] == [True, False]


@pytest.mark.parametrize(("companion", "after"), [(94, GpuAfter.OK), (95, GpuAfter.RESET), (92, GpuAfter.UNKNOWN)])
def test_what_a_double_bit_error_leaves_is_told_by_its_companion(companion, after):
    found = xids(f"[5.0] NVRM: Xid (PCI:0000:1b:00): 48, DBE\n[5.1] NVRM: Xid (PCI:0000:1b:00): {companion}, text")
    assert found[0].after is after


def test_switch_errors_keep_severity_link_and_who_was_first():
    reading = read(
        "[9.1] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, "
        "Non-fatal, Link 32 egress non-posted PRIV error (First)\n"
        "[9.1] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32 Sub-engine instance 00\n"
        "[9.2] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n"
        "[9.3] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 22003, Data {0x10000000, 0x00000000}\n"
    )
    hang, down, bare = (o for o in reading.observations if isinstance(o, SXid))
    assert (hang.code, hang.bus_id, hang.link, hang.fatal, hang.effect, hang.first) == (
        12028,
        "0000:05:00",
        32,
        False,
        "hang",
        True,
    )
    assert (down.link, down.fatal, down.effect) == (48, True, "partition")
    assert (bare.fatal, bare.effect) == (None, "fabric")
    assert reading.known == 4


def test_a_cut_xid_line_is_told_and_the_others_are_read():
    reading = read("[1.0] NVRM: Xid (PCI:0000:1b:00): 31, pid=5, MMU Fault\n[2.0] NVRM: Xid (PCI:0000:1")
    assert len(reading.observations) == 1
    assert "line 2" in reading.problems[0].message


def test_a_watcher_that_repeats_kernel_lines_under_its_own_name_adds_nothing():
    text = (
        "Nov 29 10:00:00 a1 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"
        "Nov 29 10:00:02 a1 watcher[77]: found NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"
    )
    assert len(xids(text)) == 1


def test_a_storm_is_read_in_linear_time():
    storm = "".join(
        f"[{i}.0] NVRM: Xid (PCI:0000:{i % 250:02x}:00): {(48, 94, 137, 31)[i % 4]}, text\n" for i in range(8000)
    )
    assert len(xids(storm)) == 8000
