"""The built-in profiles measure what their words say, in sizes that can be measured on two GPUs as on eight."""

from __future__ import annotations

import pytest

from rankmuster.bench.nccl_tests_series import series_of
from rankmuster.bench.profiles import ADMISSION_PROFILE, built_in, named
from rankmuster.evidence.nccl_tests_sizes import ALIGNMENT
from rankmuster.model.benchmark import Operation, Profile

KIB, MIB = 1 << 10, 1 << 20


def sizes(name: str, operation: Operation) -> tuple[int, ...]:
    return next(step.sizes for step in named(name).steps if step.operation is operation)


def test_sizes_are_those_of_the_models() -> None:
    assert sizes("tp8-decode", Operation.ALL_REDUCE) == (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)
    assert sizes("tp8-decode", Operation.ALL_GATHER) == (256_512, 16 * 256_512, 256 * 256_512)
    assert sizes("tp8-prefill", Operation.ALL_REDUCE) == (8 * MIB, 32 * MIB, 128 * MIB)
    assert sizes("ep-alltoall", Operation.ALL_TO_ALL) == (16 * 114_688, 128 * 114_688, 1024 * 114_688)
    assert sizes("pp-sendrecv", Operation.SEND_RECV) == (256 * KIB, 4 * MIB, 64 * MIB)


def test_admission_measures_each_regime_of_all_reduce_and_the_plateau_of_every_link() -> None:
    links = sizes(ADMISSION_PROFILE, Operation.ALL_REDUCE)
    assert sum(size <= 64 * KIB for size in links) >= 2
    assert sum(64 * KIB < size < 16 * MIB for size in links) >= 2
    for operation in (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.ALL_TO_ALL, Operation.SEND_RECV):
        assert sum(size >= 16 * MIB for size in sizes(ADMISSION_PROFILE, operation)) >= 3


@pytest.mark.parametrize("profile", built_in(), ids=lambda one: one.name)
def test_each_profile_is_few_processes_and_fits_any_node(profile: Profile) -> None:
    assert profile.ranks is None
    assert sum(len(series_of(step.sizes)) for step in profile.steps) <= 4
    for step in profile.steps:
        assert step.dtype == "bfloat16"
        if step.operation in (Operation.ALL_GATHER, Operation.ALL_TO_ALL):
            assert all(size % (ALIGNMENT * ranks) == 0 for size in step.sizes for ranks in (2, 4, 8))


def test_only_decode_is_replayed_from_graphs() -> None:
    assert {profile.name for profile in built_in() if any(step.graph for step in profile.steps)} == {"tp8-decode"}


def test_a_profile_that_measures_something_else_has_another_key() -> None:
    keys = [profile.key for profile in built_in()]
    assert len(set(keys)) == len(keys)
