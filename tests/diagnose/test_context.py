"""What all detectors share: the first alarm, the last look, the time that is looked at, and answers worked out once."""

from __future__ import annotations

from build_evidence import T0, instance, log, ras_json, stamped, steady_pages, verdict_of, watchdog

from rankmuster.diagnose import engine_state, ras_view, spin
from rankmuster.diagnose.context import Context, build
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.stamp import Stamp, StampKind


def context(*blobs: Blob) -> Context:
    return build(gather(blobs), DEFAULTS)


def line(rank: int, at: float) -> str:
    return f"[rank{rank}]:[W{stamped(at)} ProcessGroupNCCL.cpp:1] a line with a time"


def test_an_alarm_of_the_engine_counts_as_the_first_one() -> None:
    anchor = ras_json(T0 + 19, [])
    clock = stamped(T0 + 10)[5:13]
    alarm = f"[2026-11-29 {clock}] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)"
    seen = context(instance(last_look=T0 + 40), anchor, log("rank0.log", alarm), log("rank1.log", watchdog(1, T0 + 15)))
    assert seen.first_timeout == T0 + 15
    assert seen.first_alarm == T0 + 10


def test_what_is_written_after_the_last_look_is_known_as_such() -> None:
    seen = context(instance(last_look=T0 + 20.4), *steady_pages(T0, 20))
    after = [T0 + 20.5, T0 + 20, T0 + 25]  # the whole second of the last look may be after it
    assert all(seen.after_last_look(Stamp(at, StampKind.UNIX)) for at in after)
    assert not any(seen.after_last_look(Stamp(at, StampKind.UNIX)) for at in (T0 + 19, T0 + 20.3))
    assert not seen.after_last_look(None)
    unnoted = context(*steady_pages(T0, 20))
    assert not unnoted.after_last_look(Stamp(T0 + 25, StampKind.UNIX)), "nobody noted when the last look was"


def test_logs_of_the_clean_up_do_not_stretch_the_window() -> None:
    verdict = verdict_of(
        [instance(last_look=T0 + 20), *steady_pages(T0, 20), ras_json(T0 + 19, []), log("rank0.log", line(0, T0 + 300))]
    )
    assert verdict.window.end == T0 + 20


def test_what_several_detectors_ask_is_worked_out_once() -> None:
    seen = context(instance(), *steady_pages(T0, 20))
    for ask in (engine_state.assess, ras_view.absences, ras_view.looks_per_communicator, spin.picture):
        assert ask(seen) is ask(seen)
    other = context(instance(), *steady_pages(T0, 20))
    assert engine_state.assess(other) is not engine_state.assess(seen)
