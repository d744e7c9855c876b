"""The same kernel line reaches us with many prefixes; text, host and time must come out the same."""

import pytest

from rankmuster.evidence.kernel_line import split
from rankmuster.model.stamp import StampKind

TEXT = "NVRM: Xid (PCI:0000:9b:00): 31, pid=5, MMU Fault"


@pytest.mark.parametrize(
    ("prefix", "host", "kind"),
    [
        ("", None, None),
        ("kernel: ", None, None),
        ("[6781741.548768] ", None, StampKind.UPTIME),
        ("<4>[    5.100000] ", None, StampKind.UPTIME),
        ("[    5.100000][ T1234] ", None, StampKind.UPTIME),
        ("[Sun Feb 23 16:24:18 2025] ", None, StampKind.LOCAL),
        ("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ", None, StampKind.UNIX),
        ("kern  :warn  : [Tue Jan 21 04:41:44 2025] ", None, StampKind.LOCAL),
        ("2025-01-21T04:41:44,283302+00:00 ", None, StampKind.UNIX),
        ("2025-01-21T04:41:44+0000 gpu-7 kernel: ", "gpu-7", StampKind.UNIX),
        ("Jan 19 08:22:56 gpu3 kernel: ", "gpu3", StampKind.LOCAL_NO_YEAR),
        ("Jan 01 09:30:56 gpu1 kernel: [6540565.266214] ", "gpu1", StampKind.LOCAL_NO_YEAR),
        ("4,3973,227996636,-;", None, StampKind.UPTIME),
        ("> [6781741.548768] ", None, StampKind.UPTIME),
    ],
)
def test_prefixes_come_off(prefix, host, kind):
    line = split(prefix + TEXT)
    assert (line.text, line.host, line.from_kernel) == (TEXT, host, True)
    assert (line.stamp.kind if line.stamp else None) is kind


def test_the_year_of_dmesg_t_is_kept():
    assert split("[Sun Feb 23 16:24:18 2025] x").stamp.seconds == 1740327858.0


def test_kmsg_counts_microseconds_since_boot():
    assert split("6,3973,227996636,-;x").stamp.seconds == pytest.approx(227.996636)


def test_a_json_journal_is_a_journal():
    line = split(
        '{"MESSAGE":"mlx5_core x","_HOSTNAME":"a1",'
        '"SYSLOG_IDENTIFIER":"kernel","__REALTIME_TIMESTAMP":"1740327858500000"}'
    )
    assert (line.host, line.text, line.from_kernel) == ("a1", "mlx5_core x", True)
    assert (line.stamp.seconds, line.stamp.kind) == (1740327858.5, StampKind.UNIX)


def test_the_program_that_a_segfault_names_is_not_taken_for_a_log_tag():
    text = "pt_main_thread[2536443]: segfault at 7f79 ip 00 sp 00 error 4 in libnccl.so.2[7f00+d3d3000]"
    assert split("2025-01-21T04:41:44,285060+00:00 " + text).text == text


def test_other_programs_are_told_from_the_kernel():
    line = split("Nov 29 10:00:00 a1 kubelet[12]: Killed process 7 (x)")
    assert (line.host, line.tag, line.from_kernel) == ("a1", "kubelet", False)
