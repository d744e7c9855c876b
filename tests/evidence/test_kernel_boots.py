"""Of a kernel log only the last boot counts, and only one that goes back to it proves anything by its silence."""

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.kernel_boots import PART, KernelReach, Reach, for_this_boot, last_boot
from rankmuster.evidence.readers import all_readers
from rankmuster.model.kernel import Xid

FALLEN = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
STAMPED = "2026-11-30T09:00:00.000000+00:00 node7 kernel: "
SYSLOG = "Nov 30 09:00:00 node7 kernel: "
VERSION = "Linux version 6.8.0-40-generic (buildd@x) #40"
IDS = "a" * 32, "b" * 32


def json_line(boot: str, message: str) -> str:
    return f'{{"_BOOT_ID":"{boot}","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"{message}"}}'


def lines(*those: str) -> bytes:
    return "".join(f"{line}\n" for line in those).encode()


@pytest.mark.parametrize(
    "log",
    [
        lines(f"{STAMPED}{VERSION}"),
        lines(f"[    0.000000] {VERSION}", "[   12.100000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04"),
        lines("[    0.250581] x86/fpu: Enabled xstate features", "[  300.0] eth0: link up"),
        lines(f"[Mon Nov 30 09:00:00 2026] {VERSION}", "[Mon Nov 30 09:00:09 2026] nvidia: module verification failed"),
        lines(f"kern  :notice: 2026-11-30T09:00:00,000000+00:00 {VERSION}"),
        lines(f"6,1,0,-;{VERSION}", "6,2,12000000,-;nvidia: loading out-of-tree module taints kernel."),
        lines(f"{SYSLOG}{VERSION}", f"{SYSLOG}[   12.1] nvidia: loading"),
        lines(f"[    0.000000] node7 kernel: {VERSION}"),
        lines(json_line(IDS[0], VERSION)),
        lines("-- Journal begins at Mon 2026-11-02, ends at Mon 2026-11-30. --", f"{SYSLOG}{VERSION}"),
    ],
)
def test_a_log_that_goes_back_to_the_boot_is_whole_in_every_form(log: bytes) -> None:
    found = last_boot(log)
    assert (found.reach, found.problem) == (Reach.WHOLE, "")


@pytest.mark.parametrize(
    ("log", "reach", "words"),
    [
        (b"", Reach.NO_LOG, "is empty"),
        (b"\n \n", Reach.NO_LOG, "is empty"),
        (b"\0\1\2" * 100, Reach.NO_LOG, "no kernel log"),
        (b"hello\nthis is not a kernel log\n", Reach.NO_LOG, "no kernel log of this boot (it says 'hello"),
        (b"dmesg: read kernel buffer failed: Operation not permitted\n", Reach.NO_LOG, "Operation not permitted"),
        (b"-- No entries --\n", Reach.NO_LOG, "no kernel log"),
        (lines(f"{VERSION} (as /proc/version has it)"), Reach.NO_LOG, "no kernel log"),
        (lines("[    0.000000] Starting gVisor...", "[    0.3] Creating cloned children..."), Reach.NO_LOG, "gVisor"),
        (lines(f"{STAMPED}{VERSION}", "-- Reboot --"), Reach.NO_LOG, "nothing stands behind the last boot's mark"),
        (lines(*(f"[ {at}.0] eth0: something" for at in range(5000, 6000))), Reach.CUT, "does not reach back"),
        (lines(f"{STAMPED}eth0: link up"), Reach.CUT, "does not reach back to this boot"),
        (lines(FALLEN, f"{SYSLOG}eth0: link up"), Reach.CUT, "does not reach back"),
        (lines("[  300.0] b", "[  200.0] a", f"[    0.0] {VERSION}"), Reach.CUT, "newest line first"),
    ],
)
def test_what_proves_nothing_says_why(log: bytes, reach: Reach, words: str) -> None:
    found = last_boot(log)
    assert found.reach is reach
    assert words in found.problem


OLD, NEW = (f"{SYSLOG}{VERSION}", f"{SYSLOG}{FALLEN}"), (f"{SYSLOG}{VERSION}", f"{SYSLOG}nvidia: loading")
DMESG = f"[    0.000000] {VERSION}", f"[ 1000.0] {FALLEN}"
AGAIN = f"[    0.000000] {VERSION}", "[   12.0] nvidia: loading"


@pytest.mark.parametrize(
    "log",
    [
        lines(*OLD, "-- Reboot --", *NEW),
        lines(f"-- Boot {IDS[0]} --", *OLD, f"-- Boot {IDS[1]} --", *NEW),
        lines(*OLD, *NEW),
        lines(*DMESG, *AGAIN),
        lines(*DMESG, "[    0.3] first line that is left", "[   12.0] nvidia: loading"),
        lines(f"6,1,0,-;{VERSION}", f"3,2,9000000000,-;{FALLEN}", "6,1,300000,-;x86/fpu: Enabled xstate features"),
        lines(json_line(IDS[0], VERSION), json_line(IDS[0], FALLEN), json_line(IDS[1], VERSION)),
        lines(*(f"kern  :info  : {line}" for line in (*DMESG, *AGAIN))),
    ],
)
def test_an_error_of_an_earlier_boot_is_not_read(log: bytes) -> None:
    found = last_boot(log)
    assert found.reach is Reach.WHOLE
    assert b"Xid" not in found.data
    assert found.data.count(b"\n") == log.count(b"\n"), "lines keep their numbers"


@pytest.mark.parametrize("log", [lines(*OLD, f"-- Boot {IDS[1]} --", f"{SYSLOG}{FALLEN}"), lines(*DMESG, *DMESG)])
def test_an_error_of_this_boot_keeps_its_line(log: bytes) -> None:
    observations = PART.read(Blob("dmesg.txt", log)).observations
    (xid,) = [each for each in observations if isinstance(each, Xid)]
    assert xid.origin.line == 4
    assert any(isinstance(each, KernelReach) for each in observations)


def test_lines_that_swapped_by_a_moment_begin_no_boot() -> None:
    log = lines(f"[    0.000000] {VERSION}", f"[ 1000.000200] {FALLEN}", "[ 1000.000100] eth0: link up")
    assert b"Xid" in last_boot(log).data


def test_the_reader_stands_in_the_kernel_logs_place_and_takes_quiet_logs() -> None:
    assert len(for_this_boot(all_readers())) == len(all_readers())
    assert PART in for_this_boot(all_readers())
    assert PART.recognises(Blob("dmesg.txt", lines(f"[    0.000000] {VERSION}")))
    assert not PART.recognises(Blob("notes.txt", b"nothing of the kind\n"))
