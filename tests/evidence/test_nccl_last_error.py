"""NCCL's last error inside a framework's exception is read like a warning of its log."""

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.nccl_last_error import READER
from rankmuster.model.nccllog import NcclProblem, NcclProblemKind

HEAD = (
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
    "unhandled system error, NCCL version 2.21.5\n[rank1]: ncclSystemError: System call failed.\n"
)


def read(text: str) -> list[NcclProblem]:
    return [x for x in READER.read(Blob("all.log", text.encode())).observations if isinstance(x, NcclProblem)]


@pytest.mark.parametrize(
    ("said", "kind", "primary"),
    [
        ("Error while creating shared memory segment /dev/shm/nccl-a (size 9637888)", NcclProblemKind.SHM, True),
        (
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
            NcclProblemKind.DUPLICATE_GPU,
            True,
        ),
        (
            "socketProgress: Connection closed by remote peer node1<57557>",
            NcclProblemKind.CLOSED_BY_PEER,
            False,
        ),
    ],
)
def test_the_line_after_the_mark_is_classified(said: str, kind: NcclProblemKind, primary: bool) -> None:
    (problem,) = read(f"{HEAD}[rank1]: Last error:\n[rank1]: {said}\n")
    assert (problem.kind, problem.primary, problem.text, problem.origin.rank) == (kind, primary, said, 1)


def test_the_text_may_stand_on_the_mark_s_own_line() -> None:
    (problem,) = read("Last error: Cuda failure 2 'out of memory'\n")
    assert problem.kind is NcclProblemKind.CUDA


def test_other_ranks_lines_between_are_not_taken_for_it() -> None:
    text = "[rank0]: Last error:\n[rank3]: something else\n[rank0]: Call to ibv_reg_mr failed\n"
    (problem,) = read(text)
    assert problem.kind is NcclProblemKind.GDR_MEMORY
    assert problem.origin.rank == 0


@pytest.mark.parametrize("after", ["", "[rank1]: Exception raised from checkForNCCLErrors\n", "[rank1]: \n"])
def test_an_empty_last_error_says_nothing(after: str) -> None:
    assert read(f"{HEAD}[rank1]: Last error:\n{after}") == []


def test_each_rank_tells_the_same_once() -> None:
    block = "[rank{0}]: Last error:\n[rank{0}]: Bootstrap : no socket interface found\n"
    assert len(read(block.format(0) * 3 + block.format(1))) == 2
