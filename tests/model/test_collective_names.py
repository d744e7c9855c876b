"""However a collective is spelt, a metric has one of ten names for it."""

from __future__ import annotations

import pytest

from rankmuster.model.collective_names import COLLECTIVE_NAMES, OTHER, collective_name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("AllReduce", "all_reduce"),
        ("ALLREDUCE", "all_reduce"),
        ("nccl:all_reduce", "all_reduce"),
        ("nccl:all_reduce_barrier", "all_reduce"),
        ("ncclAllReduce", "all_reduce"),
        ("ALLREDUCE_COALESCED", "all_reduce"),
        ("nccl:_all_gather_base", "all_gather"),
        ("_ALLGATHER_BASE", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("ReduceScatter", "reduce_scatter"),
        ("_REDUCE_SCATTER_BASE", "reduce_scatter"),
        ("nccl:reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("AlltoAll", "all_to_all"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("nccl:all_to_all", "all_to_all"),
        ("alltoallv", "all_to_all"),
        ("Broadcast", "broadcast"),
        ("_broadcast_oop", "broadcast"),
        ("Bcast", "broadcast"),
        ("Reduce", "reduce"),
        ("_reduce_oop", "reduce"),
        ("Send", "send"),
        ("nccl:send 0->1", "send"),
        ("isend", "send"),
        ("Recv", "recv"),
        ("nccl:recv 1<-0", "recv"),
        ("BARRIER", "barrier"),
        ("SendRecv", OTHER),
        ("Gather", OTHER),
        ("Scatter", OTHER),
        ("reducer", OTHER),
        ("", OTHER),
        ("x" * 100_000, OTHER),
        ("\x00\xff<script>", OTHER),
    ],
)
def test_every_spelling_has_its_name(said: str, name: str) -> None:
    assert collective_name(said) == name
    assert collective_name(said) in COLLECTIVE_NAMES


def test_every_name_is_its_own() -> None:
    assert [collective_name(name) for name in COLLECTIVE_NAMES] == list(COLLECTIVE_NAMES)
    assert len(COLLECTIVE_NAMES) == 10
