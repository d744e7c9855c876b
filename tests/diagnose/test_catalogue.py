"""The catalogue explains every word a verdict can use, and its cross-references hold."""

from __future__ import annotations

import pytest

from rankmuster.diagnose import catalogue
from rankmuster.diagnose.catalogue_entry import TIMEOUT_RULE
from rankmuster.model.fault import CLASS_OF, Boundary, Confidence, FaultClass, Progress, Role, Subkind
from rankmuster.model.plane import Plane, PlaneState


@pytest.mark.parametrize("subkind", list(Subkind))
def test_every_sub_kind_is_explained_in_full(subkind: Subkind) -> None:
    entry = catalogue.ENTRIES[subkind]
    assert len(entry.meaning) > 40
    assert entry.told_apart
    assert entry.seen_by
    assert entry.causes
    assert entry.look_further
    assert entry.timeout


@pytest.mark.parametrize("subkind", list(Subkind))
def test_no_entry_claims_that_every_plane_sees_it(subkind: Subkind) -> None:
    entry = catalogue.ENTRIES[subkind]
    assert entry.blind
    assert {plane for plane, _ in entry.seen_by} != set(Plane)


@pytest.mark.parametrize("subkind", list(Subkind))
def test_look_alikes_are_others(subkind: Subkind) -> None:
    others = [other for other, _ in catalogue.ENTRIES[subkind].told_apart]
    assert subkind not in others
    assert len(others) == len(set(others))


def test_each_entry_stands_in_the_file_of_its_class() -> None:
    parts = {
        FaultClass.INIT_STUCK: catalogue.catalogue_init,
        FaultClass.COLLECTIVE_DESYNC: catalogue.catalogue_desync,
        FaultClass.TRANSPORT_STALL: catalogue.catalogue_transport,
        FaultClass.PERFORMANCE_DEGRADATION: catalogue.catalogue_performance,
        FaultClass.PROCESS_OR_DEVICE_LOST: catalogue.catalogue_lost,
    }
    for class_, part in parts.items():
        assert {CLASS_OF[entry.subkind] for entry in part.ENTRIES} == {class_}


@pytest.mark.parametrize("kind", [FaultClass, Progress, Confidence, Boundary, Role, PlaneState])
def test_every_word_of_a_field_is_explained(kind: type) -> None:
    for member in kind:  # type: ignore[attr-defined]
        assert catalogue.words_of(member.value)


def test_a_word_of_two_fields_is_explained_for_both() -> None:
    assert {word.kind for word in catalogue.words_of("blind")} == {"class", "plane state"}


@pytest.mark.parametrize(
    "typed", ["missing_enter", "Missing-Enter", "collective_desync/missing_enter", " missing enter "]
)
def test_names_are_found_as_people_type_them(typed: str) -> None:
    entry = catalogue.entry_of(typed)
    assert entry is not None
    assert entry.subkind is Subkind.MISSING_ENTER


@pytest.mark.parametrize(
    ("typed", "meant"), [("mising_enter", "missing_enter"), ("mismatch", "op_mismatch"), ("gpulost", "gpu_lost")]
)
def test_a_slip_is_answered_with_what_may_have_been_meant(typed: str, meant: str) -> None:
    assert meant in catalogue.close_names(typed)


def test_nonsense_is_answered_with_nothing() -> None:
    assert catalogue.close_names("qqqqqqqq") == []


def test_the_time_out_rule_gives_numbers_and_their_reason() -> None:
    for part in ("99.9th percentile", "three times", "60 s", "so that", "300 s"):
        assert part in TIMEOUT_RULE


def test_a_longer_time_out_is_never_the_answer_to_a_loss() -> None:
    for subkind, entry in catalogue.ENTRIES.items():
        if CLASS_OF[subkind] is FaultClass.PROCESS_OR_DEVICE_LOST:
            assert entry.timeout.startswith("No:")
