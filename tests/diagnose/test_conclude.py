"""The sentence an operator reads first, and the words for everybody named."""

from __future__ import annotations

from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    even,
    flat_pages,
    instance,
    log,
    ras_json,
    samples,
    steady_pages,
    verdict_of,
    vllm_page,
)

ALL = (0, 1, 2, 3)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]


def test_the_summary_names_rank_place_and_reason() -> None:
    gpus = samples([(10, dict.fromkeys(ALL, MOVE)), (40, {**dict.fromkeys(ALL, SPIN), 2: IDLE})])
    summary = verdict_of([instance(), *STALLED, gpus]).summary or ""
    assert summary.startswith("collective_desync/missing_enter: rank 2 on 192.0.2.2 (pid 5002, GPU 2) has an idle GPU")


def test_everybody_named_has_a_reason_and_a_place() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1000), missing=(1,))]) for t in (15, 25, 35)]
    verdict = verdict_of([instance(4, {1: (-9, T0 + 10.5)}), *STALLED, *polls])
    assert all(suspect.why and suspect.host for suspect in verdict.suspects)
    assert [suspect.role.value for suspect in verdict.suspects] == ["culprit", "victim", "victim", "victim"]


def test_an_end_that_only_a_launcher_tells_is_not_ascribed_to_ras() -> None:
    verdict = verdict_of([instance(2), *STALLED, log("slurm.log", "srun: error: n7: task 1: Killed")])
    assert "RAS" not in (verdict.summary or "")
    assert "time-out" not in (verdict.summary or "")


def test_idle_and_stopped_say_what_they_rest_on() -> None:
    idle = verdict_of([instance(), *[vllm_page(T0 + i, 1000, 0) for i in range(20)]])
    assert "no request running or waiting" in (idle.summary or "")
    stopped = verdict_of([instance(), *STALLED])
    assert "8 requests running" in (stopped.summary or "")
    assert stopped.would_decide, "an inconclusive verdict says what would decide"


def test_a_culprit_by_hardware_alone_says_what_else_would_decide_nothing_false() -> None:
    gpus = samples([(10, dict.fromkeys(ALL, MOVE)), (40, {**dict.fromkeys(ALL, SPIN), 2: IDLE})], list_pids=False)
    verdict = verdict_of([instance(), *STALLED, gpus])
    assert "process on the GPU" not in "\n".join(finding.statement for finding in verdict.findings)


def test_where_nobody_is_named_the_summary_says_what_was_found() -> None:
    hosts = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
    polls = [
        ras_json(T0 + at, [Comm(ALL, even(ALL, 1000), missing=gone)], node=node, hosts=hosts)
        for at in (18, 28, 38)
        for node, gone in (("a", (2, 3)), ("b", (0, 1)))
    ]
    cut = verdict_of([instance(4, None, hosts, last_look=T0 + 51), *STALLED, *polls])
    assert cut.summary.startswith("transport_stall/path_lost: link 10.0.0.1 - 10.0.0.2: RAS asked on both sides")
    assert [suspect.link for suspect in cut.suspects if suspect.kind.value == "link"] == ["10.0.0.1 - 10.0.0.2"]


def test_several_culprits_are_told_in_the_plural() -> None:
    spin = samples([(10, dict.fromkeys(range(6), MOVE)), (40, {**dict.fromkeys(range(6), SPIN), 2: IDLE, 4: IDLE})])
    summary = verdict_of([instance(6), *STALLED, spin]).summary
    assert "ranks 2, 4: each has an idle GPU" in summary
