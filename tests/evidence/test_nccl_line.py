"""Every layout in which NCCL and those who carry its lines have written them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.nccl_line import Level, LineParser, NcclLine
from rankmuster.model.stamp import StampKind


def only(line: str) -> NcclLine:
    found = list(LineParser().parse(line))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("line", "level", "file", "message"),
    [
        ("vm:4282:4573 [0] NCCL INFO misc/socket.cc:671 -> 2", Level.INFO, None, "misc/socket.cc:671 -> 2"),
        ("[2026-11-29 21:06:05] vm:4282:4573 [0] NCCL INFO hello", Level.INFO, None, "hello"),
        (
            "[2026-11-29 21:06:05] vm:4282:4573 [0] misc/socket.cc:596 NCCL WARN bad",
            Level.WARN,
            "misc/socket.cc:596",
            "bad",
        ),
        ("vm:4282:4573 [0] init.cc:12 (ncclCommInit) NCCL WARN bad", Level.WARN, "init.cc:12", "bad"),
        ("vm:4282:4573 [0] init.cc:12 (ncclCommInit) NCCL ATTN look", Level.ATTN, "init.cc:12", "look"),
        ("vm:4282:4573 NCCL CALL ncclGroupStart()", Level.CALL, None, "ncclGroupStart()"),
        ("vm:4282:4573 [0] 123.456789 initTransports:77 NCCL TRACE x", Level.TRACE, None, "x"),
        ("vm:4282:4573 [0] connectTrees, 167 NCCL INFO Tree 1", Level.INFO, None, "Tree 1"),
        ("vm:4282:4573 [-1] NCCL INFO x", Level.INFO, None, "x"),
    ],
)
def test_each_layout_of_a_release_gives_its_parts(line: str, level: Level, file: str | None, message: str) -> None:
    part = only(line)
    assert (part.host, part.pid, part.tid) == ("vm", 4282, 4573)
    assert (part.level, part.file, part.message) == (level, file, message)


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("3: ", 3),
        ("[rank3]: ", 3),
        ("[rank3] ", 3),
        ("[1,3]<stdout>:", 3),
        ("(VllmWorker rank=3 pid=71) ", 3),
        ("(EngineCore pid=71) ", None),
        ("[pod/llm-0-x7f2q/engine] ", None),
        ("2026-11-29T21:06:05.123456Z ", None),
    ],
)
def test_labels_of_launchers_do_not_hide_the_line_and_give_the_rank_where_they_have_it(
    prefix: str, rank: int | None
) -> None:
    part = only(f"{prefix}gpu4:3300:3301 [2] NCCL INFO Using network IB")
    assert (part.host, part.pid, part.tid, part.dev, part.rank) == ("gpu4", 3300, 3301, 2, rank)
    assert part.message == "Using network IB"


def test_the_time_keeps_what_is_known_of_it() -> None:
    own = only("[2026-11-29 21:06:05] vm:1:1 [0] NCCL INFO x").stamp
    carried = only("2026-11-29T21:06:05.5Z vm:1:1 [0] NCCL INFO x").stamp
    assert own is not None
    assert own.kind is StampKind.LOCAL
    assert carried is not None
    assert carried.kind is StampKind.UNIX
    assert only("vm:1:1 [0] NCCL INFO x").stamp is None


def test_lines_of_ranks_written_into_each_other_are_told_apart() -> None:
    first, second, third = LineParser().parse(
        "m1:10:11 [0] NCCL INFO Channel 00 : 0[0] -> 1["
        "[2026-11-29 21:06:05] m2:20:21 [1] init.cc:5 NCCL WARN bad thing[rank9]: "
        "m3:30:31 [2] NCCL INFO Using network IB"
    )
    assert (first.host, first.message) == ("m1", "Channel 00 : 0[0] -> 1[")
    assert (second.host, second.pid, second.file) == ("m2", 20, "init.cc:5")
    assert second.message.startswith("bad thing")
    assert second.stamp is not None
    assert (third.host, third.message) == ("m3", "Using network IB")


def test_the_bare_version_line_is_known_and_torch_naming_the_version_in_an_error_is_not_one() -> None:
    assert only("NCCL version 2.27.3+cuda12.9").level is Level.VERSION
    labelled = only("[1,0]<stdout>:NCCL version 2.22.3+cuda12.4")
    assert (labelled.level, labelled.rank) == (Level.VERSION, 0)
    torch = "torch.distributed.DistBackendError: NCCL error in: x.cpp:2251, invalid usage, NCCL version 2.21.5"
    assert list(LineParser().parse(torch)) == []


def test_a_warning_quoted_without_its_origin_is_read_but_prose_about_warnings_is_not() -> None:
    assert only(" NCCL WARN Call to ibv_reg_mr failed").host is None
    assert list(LineParser().parse("if you see an NCCL WARN in the log, call us")) == []


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=300), st.sampled_from(["", "a:1:2 [0] NCCL INFO ", " x.cc:1 NCCL WARN ", "NCCL version 2+cuda"])
)
def test_no_text_breaks_the_parser(noise: str, seed: str) -> None:
    for part in LineParser().parse(noise + seed + noise):
        assert isinstance(part, NcclLine)
