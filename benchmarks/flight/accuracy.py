"""Who is right how often: the captured cases and the grid of planted faults, rankmuster beside torch's analyser."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.flight import generate, ours, world
from benchmarks.flight.grid import Point
from benchmarks.flight.score import Answer, Score, overlooked, score
from benchmarks.flight.settings import Form
from benchmarks.flight.torch_env import Runner
from benchmarks.flight.truth import Truth

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.unpack import unpack

TOOLS = ("rankmuster", "torchfrtrace")


@dataclass(frozen=True, slots=True)
class Judged:
    """One point or case, and what each tool said of it; None: not asked."""

    name: str
    kind: str
    layout: str
    truth: Truth
    command: str
    said: dict[str, Answer]

    def score(self, tool: str) -> Score | None:
        return score(self.said[tool], self.truth) if tool in self.said else None


@dataclass(slots=True)
class Tally:
    """Scores per row of a table and tool."""

    rows: dict[str, dict[str, Counter[Score]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    overlooked: Counter[str] = field(default_factory=Counter)

    def add(self, row: str, judged: Judged) -> None:
        for tool, answer in judged.said.items():
            self.rows[row][tool][score(answer, judged.truth)] += 1
            if overlooked(answer, judged.truth):
                self.overlooked[tool] += 1

    def table(self, tools: Iterable[str], head: str) -> list[str]:
        """Markdown: a row per kind, per tool right / no answer / wrong culprit / crash."""
        tools = list(tools)
        columns = [f"{tool}: {what}" for tool in tools for what in ("right", "no answer", "wrong", "crash")]
        lines = [f"| {head} | points | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
        total: dict[str, Counter[Score]] = {tool: Counter() for tool in tools}
        for row, by_tool in self.rows.items():
            lines.append(_line(row, by_tool, tools))
            for tool in tools:
                total[tool] += by_tool[tool]
        lines.append(_line("**all**", total, tools))
        return lines


def _line(row: str, by_tool: dict[str, Counter[Score]], tools: list[str]) -> str:
    cells = []
    for tool in tools:
        own = by_tool[tool]
        cells += [own[Score.RIGHT], own[Score.NONE] + own[Score.PARTLY], own[Score.WRONG], own[Score.CRASH]]
    points = max((sum(by_tool[tool].values()) for tool in tools), default=0)
    return f"| {row} | {points} | " + " | ".join(map(str, cells)) + " |"


_torch: Path | None = None
_runner: Runner | None = None


def judge(points: Iterable[Point], torch: Path | None, processes: int | None = None) -> Iterator[Judged]:
    """All points on all cores; those whose fault turns out to be harmless are left out. `torch`: its bin folder."""
    with multiprocessing.Pool(processes or os.cpu_count(), _begin, (torch,)) as pool:
        for judged in pool.imap(_judge, points, chunksize=4):
            if judged is not None:
                yield judged


def _begin(torch: Path | None) -> None:
    global _torch, _runner
    _torch, _runner = torch, None


def _their_runner() -> Runner | None:
    global _runner
    if _runner is None and _torch is not None:
        _runner = Runner(_torch)
    return _runner


def _judge(point: Point) -> Judged | None:
    try:
        made = world.make(point.job)
    except ValueError:
        return None  # two calls of groups that need nothing of each other can be swapped
    said = {"rankmuster": ours.of_world(made)}
    runner = _their_runner()
    if runner is not None:
        with tempfile.TemporaryDirectory(prefix="flight-point-") as folder:
            generate.write(made, Path(folder))
            said["torchfrtrace"] = runner.answer(Path(folder) / "input" / "flight")
    return Judged(point.name, point.kind, point.layout, made.truth, generate.command_of(point.job), said)


def readable_by_theirs(point: Point) -> bool:
    """torch's analyser knows the pickle form only."""
    return point.job.form is Form.PICKLE


def judge_cases(cases: Path, torch: Path | None) -> Iterator[Judged]:
    """The captured cases that hold dumps: rankmuster on them alone and on all that there is, torch's on them."""
    runner = Runner(torch) if torch is not None else None
    for truth_file in sorted(cases.glob("*/truth.json")):
        packed = truth_file.parent / "input.tar.zst"
        parts = [part for part in unpack(Blob(packed.name, packed.read_bytes()), Allowance()) if isinstance(part, Blob)]
        dumps = [part for part in parts if "flight/" in part.path and part.data[:2] == b"\x80\x02"]
        if not dumps:
            continue
        folder = Path(tempfile.mkdtemp(prefix="flight-case-"))
        try:
            for dump in dumps:
                (folder / Path(dump.path).name).write_bytes(dump.data)
            said = {"rankmuster, dumps alone": ours.of_path(folder), "rankmuster, all planes": ours.of_path(packed)}
            if runner is not None:
                said["torchfrtrace"] = runner.answer(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        told = json.loads(truth_file.read_text())
        present = {int(found.group()) for dump in dumps if (found := _RANK.search(dump.path))}
        case = f"{packed.relative_to(cases.parent.parent)}"
        yield Judged(truth_file.parent.name, "captured", "", truth_of_case(told, present), case, said)
    if runner is not None:
        runner.close()


_RANK = re.compile(r"\d+$")


def truth_of_case(told: dict[str, object], present: set[int]) -> Truth:
    """A captured case's truth: who did it, and whether naming nobody is right too. `present`: ranks with a dump."""
    listed = told.get("culprits", told.get("culprits_allowed", []))
    culprits = tuple(sorted(map(int, listed)))  # type: ignore[call-overload]
    classes = told.get("accept_class", [])
    is_fault = "healthy" not in classes and classes != ["inconclusive"]  # type: ignore[operator]
    silent = "culprits" not in told or not culprits
    absent = bool(set(culprits) - present)
    return Truth("captured", culprits, silent, absent, is_fault, False, (), (), (), (), "", 0)
