"""Profiles of one's own are read strictly: what is misspelt is named with its line, and measures nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.bench.profile_choice import NoProfile, chosen
from rankmuster.bench.profile_file import DTYPES, ProfileError, as_yaml, read_profile
from rankmuster.bench.profiles import built_in
from rankmuster.model.benchmark import Operation, Profile, Step

GOOD = """\
schema: rankmuster.profile/1
name: ours
description: what we do
ranks: 4
steps:
  - operation: all_reduce
    sizes: [16384, 64 KiB, 1M, 2 GiB]
    dtype: half
    graph: true
    iterations: 20
  - operation: send_recv
    sizes: [8 MiB]
"""


def test_a_profile_reads_to_what_it_says() -> None:
    assert read_profile(GOOD.encode(), "p.yaml") == Profile(
        "ours",
        "what we do",
        (
            Step(Operation.ALL_REDUCE, (16384, 65536, 1 << 20, 2 << 30), "half", graph=True, iterations=20),
            Step(Operation.SEND_RECV, (8 << 20,)),
        ),
        4,
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("iterations: 20", "iteration: 20", 10, "no field 'iteration'"),
        ("operation: all_reduce", "operation: allreduce", 6, "all_reduce, all_gather"),
        ("64 KiB", "64 Kib/s", 7, "no size"),
        ("64 KiB", "8 KiB", 7, "sizes rise"),
        ("dtype: half", "dtype: fp16", 8, "bfloat16, half"),
        ("graph: true", "graph: yes", 9, "not true or false"),
        ("iterations: 20", "iterations: 0", 10, "from 1 to"),
        ("ranks: 4", "ranks: 1", 4, "from 2 to"),
        ("ranks: 4", "ranks: 4\nranks: 8", 5, "ranks twice"),
        ("rankmuster.profile/1", "rankmuster.profile/9", 1, "this version reads rankmuster.profile/1"),
        ("name: ours", "name: ../ours", 2, "letters, digits"),
        ("sizes: [8 MiB]", "sizes: []", 12, "sizes has to be a list"),
        ("- operation: send_recv\n    sizes", "- sizes", 11, "operation is missing"),
        ("name: ours\n", "", 1, "name is missing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(ProfileError) as caught:
        read_profile(GOOD.replace(old, new, 1).encode(), "p.yaml")
    assert f"p.yaml: line {line}:" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00", "- 1", "steps: 1", "schema: rankmuster.profile/1\nname: x"])
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(ProfileError):
        read_profile(text.encode(), "p.yaml")


@given(st.binary(max_size=400))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    with pytest.raises(ProfileError):
        read_profile(data, "p.yaml")


def test_a_tag_makes_no_object() -> None:
    with pytest.raises(ProfileError):
        read_profile(b"!!python/object/apply:os.system ['true']", "p.yaml")


SIZES = st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6, unique=True).map(lambda one: tuple(sorted(one)))
STEPS = st.builds(
    Step,
    st.sampled_from(Operation),
    SIZES,
    st.sampled_from(DTYPES),
    st.booleans(),
    st.booleans(),
    st.integers(1, 1000),
    st.integers(0, 100),
)


@given(st.lists(STEPS, min_size=1, max_size=4), st.text(max_size=60), st.none() | st.integers(2, 64))
def test_what_is_written_reads_back_as_the_same_profile(steps: list[Step], words: str, ranks: int | None) -> None:
    profile = Profile("x", " ".join(words.split()), tuple(steps), ranks)
    text = as_yaml(profile, (words,))
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    back = read_profile(text.encode(), "x")
    assert (back.steps, back.ranks, back.key) == (profile.steps, profile.ranks, profile.key)


@pytest.mark.parametrize("profile", built_in(), ids=lambda one: one.name)
def test_every_built_in_profile_reads_back_and_is_found_by_its_name(profile: Profile) -> None:
    assert read_profile(as_yaml(profile).encode(), "x") == profile
    assert chosen(profile.name) == profile


def test_a_name_that_is_neither_profile_nor_file_names_those_that_there_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pytest.raises(NoProfile, match="links, tp8-decode"):
        chosen("tp4-decode")
    with pytest.raises(NoProfile, match="cannot read"):
        chosen(str(tmp_path_factory.mktemp("x") / "none.yaml"))
