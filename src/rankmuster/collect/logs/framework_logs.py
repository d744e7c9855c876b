"""What the engine, torch and their launchers have written: the processes' own output, wherever it can be read again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.left_behind import left_over
from rankmuster.collect.logs import keepers
from rankmuster.collect.logs.left_told import told
from rankmuster.collect.logs.outputs import Outputs, elsewhere, left_by_the_dead, outputs
from rankmuster.collect.logs.taking import outcome, take
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.proc import Proc
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Target


@dataclass(frozen=True, slots=True)
class FrameworkLogs:
    """`var_log`: where the node keeps its containers' logs, as seen from here. `journalctl`: the program."""

    name: str = "framework-log"
    budget_seconds: float = 18.0
    var_log: Path = Path("/var/log")
    journalctl: str = "journalctl"

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Files that are open, then those in launchers' folders, the pods' logs and the journal."""
        target = scene.target
        if target is None:
            return Outcome(Ending.NOTHING, "no instance was found, so there is nobody whose output could be read")
        found = outputs(target, scene.machine, deadline)
        left = left_by_the_dead(found, target, scene.machine, deadline)
        known = told(target, deadline)
        found.sources.extend(known.sources)
        pods, units = keepers.owners(Proc(scene.machine.proc), target.processes)
        found.sources.extend(keepers.pod_logs(self.var_log, pods))
        notes = self._journal(target, units, scene, sink, deadline) if found.journal else []
        state = take(
            found.sources,
            "logs",
            sink,
            deadline,
            now=scene.now,
            host=target.host,
            max_bytes=scene.wishes.max_log_bytes,
            between=scene.board.assessment,
        )
        state.trouble.extend(f"the files of {name} did not let themselves be looked at in time" for name in found.stuck)
        state.taken = dict.fromkeys(piece.path for piece in sink.pieces)
        who = "these processes" if target.processes else "the processes that have ended"
        result = outcome(state, "log(s)", f"no output of {who} is in a file{_hint(found)}")
        note = result.note
        if left.ours and state.taken:
            note += f"; {len(left.ours)} of them of processes that have ended{left_over(left)}"
        if known.old:
            note += f"; left alone: {known.old} that nobody has written to in this incarnation"
        return Outcome(result.ending, note, (*self._warnings(found, state.taken != {}), *notes, *known.notes))

    def _journal(self, target: Target, units: set[str], scene: Scene, sink: Sink, deadline: Deadline) -> list[str]:
        """Notes on units whose journal could not be had."""
        notes: list[str] = []
        if scene.machine.proc != Path("/proc"):
            return ["the journal is that of this container, not of the machine looked at, and was not asked"]
        for unit in sorted(units)[:4]:
            text = keepers.journal(unit, scene.wishes.max_log_bytes, deadline, self.journalctl)
            if isinstance(text, str):
                notes.append(text)
            elif text:
                sink.put(f"logs/journal-{unit}.log", text, look_time=scene.now(), host=target.host, text=True)
        return notes

    def _warnings(self, found: Outputs, any_taken: bool) -> list[str]:
        if not found.elsewhere or not any_taken:
            return []
        return [f"some output cannot be read again{_hint(found)}"]


def _hint(found: Outputs) -> str:
    if not found.elsewhere:
        return ""
    reader = "whoever reads the pipe has it (kubectl logs, the launcher's or the scheduler's own file)"
    return f": it goes to {elsewhere(found)}" + (f"; {reader}" if found.piped else "")
