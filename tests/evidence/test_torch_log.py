"""torch's watchdog texts of several versions, told once each and with the group that they belong to."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.torch_log import READER
from rankmuster.model.frameworklog import AbortNotice, DesyncReport, DumpNotice, WatchdogTimeout, WorkStatus

TIMEOUT = (
    "[rank0]:[E1129 21:09:16.588903903 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=751, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=10000) ran for 10046 milliseconds "
    "before timing out.\n"
)
DESYNC = """\
[rank0]:[E1129 21:09:16.590220993 ProcessGroupNCCL.cpp:2495] Rank 0
\t - [0] Timeout at collective: ALLGATHER, #755
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t     [2] finished collective #379, but didn't join collective #380 (count from 1)
\t - Snapshot of ranks' latest states:
\t   #379 finished ranks:
\t     [2] finished ALLREDUCE
"""
STATUS = (
    "[rank0]:[E1129 21:09:16.590238663 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure "
    "detected by watchdog at work sequence id: 751 PG status: last enqueued work: 755, last completed work: 750\n"
)
SIGNAL = (
    "[rank2]:[E1129 21:08:13.152578726 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump "
    "signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. Last enqueued NCCL "
    "work: 750, last completed NCCL work: 750.This is most likely caused by incorrect usages of collectives\n"
    "[rank2]:[E1129 21:08:13.152955267 ProcessGroupNCCL.cpp:1628] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL "
    "preparing to dump debug info. Include stack trace: 1, only active collectives: 0\n"
)
RETRY = (
    "[rank2]:[E1129 21:08:17.152894839 ProcessGroupNCCL.cpp:1389] [PG ID 0 PG GUID 0(default_pg) Rank 2] Future for Flight "
    "recorder dump in heartbeatMonitor timed out after 4000 ms\n"
    "[rank2]:[E1129 21:08:17.153196492 ProcessGroupNCCL.cpp:1628] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL "
    "preparing to dump debug info. Include stack trace: 0, only active collectives: 0\n"
)
DEATH = (
    "[rank0]:[E1129 21:09:36.854984673 ProcessGroupNCCL.cpp:764] [Rank 0] To avoid data inconsistency, we are taking the "
    "entire process down.\n"
    "[rank0]:[E1129 21:09:36.855907410 ProcessGroupNCCL.cpp:2119] [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group "
    "watchdog thread terminated with exception: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL("
    "SeqNum=751, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=10000) ran for 10046 milliseconds before "
    "timing out.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: [Rank 0] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=751, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, "
    "Timeout(ms)=10000) ran for 10046 milliseconds before timing out.\n"
)


def read(text: str, path: str = "all.log") -> tuple[object, ...]:
    blob = Blob(path, text.encode())
    assert READER.recognises(blob)
    return READER.read(blob).observations


def of(kind, found):
    return [x for x in found if isinstance(x, kind)]


def test_a_timeout_told_four_times_is_one_timeout_with_its_group():
    [timeout] = of(WatchdogTimeout, read(TIMEOUT + DESYNC + STATUS + DEATH))
    assert (timeout.origin.rank, timeout.seq, timeout.op) == (0, 751, "ALLREDUCE")
    assert (timeout.numel_in, timeout.numel_out, timeout.timeout_ms, timeout.ran_ms) == (65536, 65536, 10000, 10046)
    assert (timeout.group, timeout.group_desc, timeout.backend) == ("0", "default_pg", "nccl")


def test_timeouts_of_old_torch_without_sizes_or_sequence():
    found = of(
        WatchdogTimeout,
        read(
            "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=469508, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds before timing out.\n"
            "[E ProcessGroupNCCL.cpp:737] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=469508, "
            "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds before timing out.\n"
            "[E ProcessGroupNCCL.cpp:567] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL("
            "OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800212 milliseconds before timing out.\n"
        ),
    )
    assert [(t.origin.rank, t.seq, t.op) for t in found] == [
        (1, 469508, "ALLREDUCE"),
        (2, 469508, "ALLREDUCE"),
        (3, None, "BROADCAST"),
    ]


def test_a_subgroups_timeout_keeps_the_global_rank():
    [timeout] = of(
        WatchdogTimeout,
        read(
            "[rank9]:[E318 08:49:08.96 P.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, "
            "OpType=_REDUCE_SCATTER_BASE, NumelIn=8, NumelOut=4, Timeout(ms)=600000) ran for 600001 milliseconds\n"
            "[rank9]:[E318 08:49:08.97 P.cpp:2057] [PG ID 4 PG GUID 45 Rank 1]  failure detected by watchdog at work "
            "sequence id: 2 PG status: last enqueued work: 2, last completed work: -1\n"
        ),
    )
    assert (timeout.origin.rank, timeout.origin.group_rank, timeout.group, timeout.group_desc) == (9, 1, "45", None)


def test_a_line_that_a_terminal_wrapped_is_still_read():
    wrapped = TIMEOUT.replace("NumelIn=65536, ", "\nNumelIn=65536, ")
    [timeout] = of(WatchdogTimeout, read(wrapped))
    assert (timeout.seq, timeout.numel_out, timeout.ran_ms) == (751, 65536, 10046)


def test_status_forms_of_torch_2_4_and_2_11():
    new = of(WorkStatus, read(STATUS))[0]
    assert (new.last_enqueued, new.last_completed, new.failed_seq) == (755, 750, 751)
    old = of(
        WorkStatus,
        read(
            "[rank0]:[E321 02:07:08.46 P.cpp:1664] [PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog "
            "at work: 1580, last enqueued NCCL work: 1582, last completed NCCL work: 1579.\n"
        ),
    )[0]
    assert (old.group, old.last_enqueued, old.last_completed, old.failed_seq) == ("1", 1582, 1579, 1580)


def test_a_rank_asked_to_dump_tells_how_far_it_got_and_who_asked():
    found = read(SIGNAL + RETRY)
    [status] = of(WorkStatus, found)
    assert (status.last_enqueued, status.last_completed, status.failed_seq) == (750, 750, None)
    first, second = of(DumpNotice, found)
    assert (first.with_stacks, first.reason, first.signalled_by, first.retry) == (True, "timeout", 1, False)
    assert (second.with_stacks, second.reason, second.retry) == (False, "timeout", True)


def test_a_dump_without_a_cause_in_the_log_has_no_reason():
    [dump] = of(DumpNotice, read(SIGNAL.splitlines(keepends=True)[1]))
    assert dump.reason is None
    assert dump.origin.stamp is not None


def test_desync_report_names_laggards_or_those_that_joined():
    [report] = of(DesyncReport, read(DESYNC))
    assert (report.laggards, report.unfinished, report.origin.rank) == (((2, 379),), (), 0)
    joined = DESYNC.replace(
        "\t     [2] finished collective #379, but didn't join collective #380",
        "\t   - [0, 1] joined but didn't finish collective #755",
    )
    [report] = of(DesyncReport, read(joined))
    assert (report.laggards, report.unfinished) == ((), (0, 1))
    [report] = of(
        DesyncReport,
        read(
            "\t - To our best knowledge, ranks [3, 5] are the lagging ranks that caused this timeout. They never joined\n"
        ),
    )
    assert report.laggards == ((3, None), (5, None))


def test_aborts_are_told_once_each_and_a_stuck_watchdog_is_marked():
    aborts = of(AbortNotice, read(DEATH + DEATH))
    assert len(aborts) == 3
    assert not any(a.heartbeat for a in aborts)
    [stuck] = of(
        AbortNotice,
        read(
            "[rank4]:[F P.cpp:1169] [PG 5 Rank 0] [PG 5 Rank 0] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
            "without making progress in monitoring enqueued collectives.\n"
        ),
    )
    assert stuck.heartbeat
    assert (stuck.origin.rank, stuck.origin.group_rank) == (4, 0)


def test_gloo_wait_timeout_is_a_timeout_of_its_backend():
    [timeout] = of(
        WatchdogTimeout,
        read(
            "[rank3]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
            "1800000ms for recv operation to complete\n"
        ),
    )
    assert (timeout.backend, timeout.op, timeout.timeout_ms, timeout.origin.rank) == ("gloo", "RECV", 1800000, 3)


def test_start_up_warnings_say_nothing():
    noise = (
        b"[rank0]:[W1129 21:08:32.028516926 Utils.hpp:137] Warning: Environment variable TORCH_NCCL_TRACE_BUFFER_SIZE is "
        b"deprecated; use TORCH_FR_BUFFER_SIZE instead (function operator())\n"
    )
    assert READER.read(Blob("logs/rank0.log", noise)).observations == ()
