"""Settings that narrow a path are worth a word where speed is the question, and noise everywhere else."""

from __future__ import annotations

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    flat_pages,
    instance,
    said,
    samples,
    steady_pages,
    verdict_of,
    vllm_page,
)

from rankmuster.evidence.blob import Blob

ALL = (0, 1, 2, 3)
NARROW = Blob("nccl/rank0.log", b"h0:101:202 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n")
SLOW = [vllm_page(T0 + i, 1000 + 50 * min(i, 25) + 5 * max(i - 25, 0)) for i in range(45)]


@pytest.mark.parametrize("pages", [[], SLOW], ids=["unknown", "slow"])
def test_it_is_said_where_speed_is_the_question(pages: list[Blob]) -> None:
    assert "NCCL_NVLS_ENABLE=0" in said(verdict_of([instance(last_look=T0 + 45), *pages, NARROW]))


def test_it_is_not_said_of_a_stop_or_of_health() -> None:
    assert "NCCL_NVLS_ENABLE" not in said(verdict_of([instance(), *steady_pages(T0, 20), NARROW]))
    stalled = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
    gpus = samples([(10, dict.fromkeys(ALL, MOVE)), (40, {**dict.fromkeys(ALL, SPIN), 2: IDLE})])
    assert "NCCL_NVLS_ENABLE" not in said(verdict_of([instance(), *stalled, gpus, NARROW]))
