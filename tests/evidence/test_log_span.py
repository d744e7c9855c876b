"""A log's stamped lines prove that its writer lived then."""

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.log_span import READER
from rankmuster.model.frameworklog import LogSpan


def spans(text: str, path: str = "all.log") -> list[LogSpan]:
    blob = Blob(path, text.encode())
    return [x for x in READER.read(blob).observations if isinstance(x, LogSpan)] if READER.recognises(blob) else []


WARNING = "[rank{r}]:[W1129 21:08:{s:02}.027069502 Utils.hpp:137] Warning: Environment variable X is deprecated\n"


def test_a_rank_with_nothing_but_start_up_warnings_was_alive_then():
    [span] = spans(WARNING.format(r=3, s=32) + "plain words\n" + WARNING.format(r=3, s=40), "logs/rank3.log")
    assert (span.rank, span.lines) == (3, 2)
    assert span.first is not None
    assert span.last is not None
    assert round(span.last.seconds - span.first.seconds) == 8


def test_a_file_of_several_ranks_gives_each_its_span():
    found = spans(WARNING.format(r=0, s=1) + WARNING.format(r=1, s=2) + WARNING.format(r=0, s=30))
    assert {s.rank: s.lines for s in found} == {0: 2, 1: 1}


def test_unnamed_lines_of_a_ranks_file_belong_to_that_rank():
    text = "[W1129 21:05:51.22 socket.cpp:207] [c10d] The hostname cannot be retrieved.\n" + WARNING.format(r=1, s=59)
    [span] = spans(text, "logs/rank1.log")
    assert (span.rank, span.lines) == (1, 2)


def test_the_engine_is_named_where_its_lines_show_it():
    assert spans("(Worker_TP0 pid=1) INFO 11-29 20:00:00 [f.py:1] x\n")[0].engine == "vllm"
    assert spans("[2026-11-29 20:00:00 TP0] x\n")[0].engine == "sglang"
    assert spans("[11/29/2026-20:00:00] [TRT-LLM] [I] x\n")[0].engine == "tensorrt-llm"
    assert spans("2026-11-29T20:00:00.0Z  INFO text_generation_router: x\n")[0].engine == "tgi"


def test_other_planes_files_are_not_claimed():
    for text in (
        "vm:1:2 [0] NCCL INFO Bootstrap: Using eth0\n",
        "Nov 29 21:07:56 node kernel: NVRM: Xid (PCI:0000:01:00): 79\n",
        "[12345.678901] NVRM: Xid\n",
        "vllm:num_requests_running 3\n",
        '{"time": 1795986283.5, "gpu": 0}\n',
    ):
        assert spans(text) == []
