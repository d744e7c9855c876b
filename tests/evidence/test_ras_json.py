"""What a RAS JSON reply must tell, also when NCCL wrote it wrongly or it was damaged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.ras_json import READER
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import StampKind

RUNNING = """\
"init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false"""


def json_rank(rank: int, *, all_reduce: int = 13828, status: str | None = None) -> str:
    """One answering rank, as NCCL prints it."""
    state = status or RUNNING
    return f"""        {{
          "rank": {rank},
          "host": "10.77.0.1",
          "pid": {4282 + rank},
          "cuda_dev": {rank},
          "nvml_dev": {rank},
          "status": {{
            {state}
          }},
          "collective_counts": {{
            "Broadcast": 3457,
            "Reduce": 0,
            "AllGather": 3457,
            "ReduceScatter": 0,
            "AllReduce": {all_reduce}
          }}
        }}"""


def json_missing(
    rank: int, *, comma: str = "", unresponsive: str = "true", host: str = "10.77.0.2", pid: int = 0
) -> str:
    """One missing rank; `comma` is what NCCL 2.28.7 and 2.28.9 forget."""
    return f"""        {{
          "rank": {rank},
          "host": "{host}",
          "pid": {pid or 4282 + rank},
          "cuda_dev": {rank},
          "nvml_dev": {rank}{comma}
          "status": {{
            "unresponsive": {unresponsive},
            "considered_dead": false
          }}
        }}"""


def json_communicator(
    ranks: list[str], missing: list[str], *, size: int = 4, identity: str = "0x2a33ab44d8b738c8"
) -> str:
    """One communicator."""
    return f"""    {{
      "hash": "{identity}",
      "secondary_hash": "0x217e921e197a0897:0xbb46184a1a6a558e",
      "size": {size},
      "ranks_count": {len(ranks)},
      "missing_ranks_count": {len(missing)},
      "ranks": [
{",".join(ranks)}
      ],
      "missing_ranks": [
{",".join(missing)}
      ]
    }}"""


def json_reply(*communicators: str) -> str:
    """A whole reply."""
    return f"""{{
  "nccl_version": "2.28.9",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2026-11-29 21:06:05",
  "communicators_count": {len(communicators)},
  "communicators": [
{",".join(communicators)}
  ],
  "ras": {{
    "collection_time_sec": 0.003,
    "timeouts_count": 2
  }}
}}
"""


CUT_LINK = json_reply(json_communicator([json_rank(0), json_rank(1)], [json_missing(2), json_missing(3)]))


def read(reply: str | bytes, path: str = "ras/1795986365.882-a.json") -> tuple[list[RasPoll], tuple[Problem, ...]]:
    blob = Blob(path, reply.encode() if isinstance(reply, str) else reply)
    assert READER.recognises(blob)
    reading = READER.read(blob)
    return [poll for poll in reading.observations if isinstance(poll, RasPoll)], reading.problems


def poll(reply: str) -> RasPoll:
    (only,), _ = read(reply)
    return only


def test_the_missing_comma_of_nccl_2_28_costs_nothing() -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(CUT_LINK)
    (found,), problems = read(CUT_LINK)
    (communicator,) = found.communicators
    assert [(rank.rank, rank.host, rank.nvml_dev) for rank in communicator.missing] == [
        (2, "10.77.0.2", 2),
        (3, "10.77.0.2", 3),
    ]
    assert all(rank.unresponsive is True and rank.considered_dead is False for rank in communicator.missing)
    assert [rank.counts["AllReduce"] for rank in communicator.ranks] == [13828, 13828]
    assert (problems, found.corrupt, found.truncated) == ((), (), False)


def test_the_comma_is_mended_in_one_line_too() -> None:
    assert poll(" ".join(CUT_LINK.split())).communicators == poll(CUT_LINK).communicators


def test_a_reply_says_when_whom_and_what_was_asked() -> None:
    found = poll(CUT_LINK)
    assert (found.nccl_version, found.node, found.timeouts, found.collection_seconds) == ("2.28.9", "a", 2, 0.003)
    assert found.time is not None
    assert found.time.kind is StampKind.UNIX
    assert found.stamp is not None
    assert found.stamp.kind is StampKind.LOCAL
    assert found.communicators[0].hash == 0x2A33AB44D8B738C8
    assert found.communicators[0].secondary_hash == "0x217e921e197a0897:0xbb46184a1a6a558e"


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (
            '"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": true',
            "ABORT",
        ),
        (
            '"init_state": 0, "async_error": 0, "finalize_called": true, "destroy_flag": false, "abort_flag": false',
            "FINALIZE",
        ),
        (
            '"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": true, "abort_flag": false',
            "FINALIZE",
        ),
        (
            '"init_state": 7, "async_error": 7, "finalize_called": false, "destroy_flag": false, "abort_flag": false',
            "INIT",
        ),
        (
            '"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false',
            "RUNNING",
        ),
        ('"init_state": 0', None),
    ],
)
def test_the_status_is_what_the_text_report_would_say(state: str, status: str | None) -> None:
    rank = poll(json_reply(json_communicator([json_rank(0, status=state)], []))).communicators[0].ranks[0]
    assert rank.status == status
    assert rank.async_error is None


def test_an_asynchronous_error_is_named() -> None:
    state = '"init_state": 2, "async_error": 6, "finalize_called": false, "destroy_flag": false, "abort_flag": false'
    rank = poll(json_reply(json_communicator([json_rank(0, status=state)], []))).communicators[0].ranks[0]
    assert (rank.async_error, rank.init_error) == ("ncclRemoteError", "ncclSystemError")


def test_a_rank_that_answered_without_the_communicator_is_not_unresponsive() -> None:
    reply = json_reply(json_communicator([json_rank(0)], [json_missing(1, comma=",", unresponsive="false")], size=2))
    assert poll(reply).communicators[0].missing[0].unresponsive is False


def test_unknown_processes_have_no_host_and_no_pid_and_are_no_corruption() -> None:
    reply = json_reply(json_communicator([json_rank(0)], [json_missing(1, comma=",", host="unknown", pid=-1)], size=2))
    found = poll(reply)
    assert (found.communicators[0].missing[0].host, found.communicators[0].missing[0].pid) == (None, None)
    assert found.corrupt == ()


def test_no_communicators_is_an_answer() -> None:
    found = poll(json_reply())
    assert found.no_communicators
    assert not found.truncated


def test_an_empty_entry_is_left_out_with_a_note_and_the_rest_is_believed() -> None:
    (found,), problems = read(
        json_reply(json_communicator([], [], size=0, identity="0x0"), json_communicator([json_rank(0)], []))
    )
    assert [c.hash for c in found.communicators] == [0x2A33AB44D8B738C8]
    assert found.corrupt == ()
    assert [p.kind for p in problems] == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(
    "communicator",
    [
        json_communicator([json_rank(0)], [json_missing(-1348998492)]),
        json_communicator([json_rank(4)], []),
        json_communicator([json_rank(0)], [json_missing(i) for i in range(1, 9)]),
        json_communicator([json_rank(0)], [json_missing(1)], identity="0xb3d5000200000001"),
        json_communicator([json_rank(0, all_reduce=1 << 62)], []),
        json_communicator([json_rank(0)], [], size=10**30),
        json_communicator([json_rank(0)], []).replace('"pid": 4282', '"pid": 0').replace("10.77.0.1", "0.0.0.0"),
    ],
)
def test_impossible_numbers_make_the_whole_reply_incredible(communicator: str) -> None:
    (found,), problems = read(json_reply(json_communicator([json_rank(0)], []), communicator))
    assert found.corrupt
    assert ProblemKind.CORRUPT in [p.kind for p in problems]


def test_counts_that_do_not_quite_add_up_are_tolerated() -> None:
    # While communicators come and go, ranks and missing ranks need not sum to the size.
    assert poll(json_reply(json_communicator([json_rank(0)], [], size=4))).corrupt == ()


@pytest.mark.parametrize("before", ["OK\n", "SERVER PROTOCOL 2\nOK\nOK\n", "\ufeff"])
def test_what_stands_before_the_object_is_skipped(before: str) -> None:
    assert poll(before + CUT_LINK).communicators == poll(CUT_LINK).communicators


def test_several_objects_are_several_polls() -> None:
    (first, second, third), problems = read(CUT_LINK + json_reply() + "OK\n" + CUT_LINK)
    assert first.time is not None
    assert second.time is None
    assert second.no_communicators
    assert third.communicators == first.communicators
    assert problems == ()


def test_keys_in_another_order_are_read() -> None:
    sorted_keys = json.dumps(json.loads(json_reply(json_communicator([json_rank(0)], []))), sort_keys=True)
    (first, second), _ = read(sorted_keys + "\n" + sorted_keys)
    assert first.communicators == second.communicators != ()


def test_a_reply_that_was_cut_keeps_what_stood_before() -> None:
    (found,), problems = read(CUT_LINK[: CUT_LINK.index('"missing_ranks": [')])
    (communicator,) = found.communicators
    assert found.truncated
    assert [rank.rank for rank in communicator.ranks] == [0, 1]
    assert communicator.missing_count == 2
    assert [p.kind for p in problems] == [ProblemKind.DAMAGED]


def test_a_number_that_was_cut_in_the_middle_is_not_used() -> None:
    (found,), _ = read(CUT_LINK[: CUT_LINK.index('"AllReduce": 138') + len('"AllReduce": 138')])
    assert "AllReduce" not in found.communicators[0].ranks[0].counts


def test_a_reply_behind_a_damaged_one_is_read_whole() -> None:
    (first, second), _ = read(CUT_LINK[:900] + CUT_LINK)
    assert first.truncated
    assert not second.truncated
    assert len(second.communicators[0].missing) == 2


@pytest.mark.parametrize("nest", ["[", '{"a":'])
def test_nesting_meant_to_hurt_is_a_problem_and_no_crash(nest: str) -> None:
    (found,), problems = read('{"nccl_version": "2.28.9", "communicators": ' + nest * 200_000)
    assert found.truncated
    assert problems


@pytest.mark.parametrize(
    "other",
    [
        '{"nccl_version": "2.28.9", "pg_config": {}, "entries": []}',
        '{"version": "2.10", "nccl_version": "2.28.9", "ranks": []}',
        "NCCL version 2.28.9 compiled with CUDA 13.0\n",
        '{"timestamp": "2025-12-19 13:07:07", "group": "LIFECYCLE", "event": "PEER_DEAD", "details": ""}',
    ],
)
def test_other_json_is_not_claimed(other: str) -> None:
    assert not READER.recognises(Blob("x.json", other.encode()))


REPLIES = [
    CUT_LINK,
    json_reply(),
    json_reply(json_communicator([json_rank(0)], []), json_communicator([json_rank(1)], [])),
]


def survive(data: bytes) -> Reading:
    blob = Blob("ras/1795986365.882-a.json", data)
    READER.recognises(blob)
    return READER.read(blob)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPLIES), st.integers(0, 4000))
def test_cut_anywhere_it_still_reads_and_never_turns_incredible(reply: str, at: int) -> None:
    for found in survive(reply.encode()[:at]).observations:
        assert isinstance(found, RasPoll)
        assert not found.corrupt


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPLIES), st.sampled_from(REPLIES), st.integers(0, 3000), st.integers(0, 3000))
def test_two_replies_spliced_anywhere_are_read(one: str, other: str, end: int, start: int) -> None:
    assert isinstance(survive((one[:end] + other[start:]).encode()), Reading)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(REPLIES), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=8))
def test_flipped_bytes_are_survived(reply: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray(reply.encode())
    for at, value in flips:
        data[at % len(data)] = value
    assert isinstance(survive(bytes(data)), Reading)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rank", "status", "ranks", "missing_ranks", "hash", "size", "init_state"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(ANYTHING, ANYTHING)
def test_values_of_any_type_in_any_place_are_survived(communicators: object, ras: object) -> None:
    reply = {"nccl_version": ras, "communicators": communicators, "ras": ras, "timestamp": communicators}
    assert survive(json.dumps(reply).encode()).known == 1


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes_are_survived(data: bytes) -> None:
    assert isinstance(survive(data), Reading)
    assert isinstance(survive(b'{"nccl_version": "2.28.9", "communicators": ' + data), Reading)
