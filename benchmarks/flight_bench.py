"""Everything that is measured about Flight Recorder dumps, in one run: time, memory, growth, merging, who is right.

    python benchmarks/flight_bench.py [--quick] [--output benchmarks/RESULTS.md] [--only SECTION ...]

Figures of different machines do not compare; the ratios within one run do. The dumps are synthetic (benchmarks/flight),
written as torch writes them. Each command is a process of its own, timed from its start to its end.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.flight import accuracy, grid, measure, merging, speed  # noqa: E402  # found only now
from benchmarks.flight.measure import machine  # noqa: E402
from benchmarks.flight.score import Score, overlooked  # noqa: E402
from benchmarks.flight.torch_env import environment  # noqa: E402

MOST_NAMED = 20
"""Points told by name: more than anyone makes again."""

SECTIONS = ("speed", "growth", "merge", "accuracy")


class Page:
    """What is printed, kept for the file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small jobs, a part of the grid: a few minutes")
    parser.add_argument("--output", type=Path, default=None, help="write the page here too")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--no-torch", action="store_true", help="leave torch's analyser out")
    options = parser.parse_args()
    start = time.monotonic()
    if options.quick:
        measure.LONGEST_SECONDS = 90.0
    page = Page()
    page.say("# Flight Recorder: what was measured\n")
    page.say("Written by `make bench`" + (" (its quick part, `make bench-quick`)" if options.quick else "") + ".\n")
    for line in machine():
        page.say(line)
    page.say()
    torch = None if options.no_torch else environment()
    if "speed" in options.only:
        page.say("## From command to verdict\n")
        for ranks in (64,) if options.quick else (64, 1024):
            for plain in (False, True):
                speed.beside(ranks, torch, page.say, plain=plain)
    if "growth" in options.only:
        page.say("## How it grows\n")
        speed.growth([64, 128, 256] if options.quick else [64, 256, 1024, 2048, 4096], page.say)
        page.say()
    if "merge" in options.only:
        page.say("## Summaries merged\n")
        merging.merging([256] if options.quick else [1024, 4096, 16384], page.say)
        page.say()
    if "accuracy" in options.only:
        who_is_right(page, torch, one_in=40 if options.quick else 8)
    page.say(f"The whole run took {(time.monotonic() - start) / 60:.1f} minutes.")
    if options.output is not None:
        options.output.write_text("\n".join(page.lines) + "\n")


def who_is_right(page: Page, torch: Path | None, one_in: int) -> None:
    """The two accuracy tables, and every wrong culprit by name."""
    page.say("## Who is right\n")
    page.say(
        "Right: exactly the ranks at fault; nobody where nobody is; nobody, or a suspect, where dumps alone separate\n"
        "nobody (the design's rules). Wrong: an innocent rank named as culprit, or a healthy job called faulty.\n"
        "torchfrtrace is taken at the set of ranks that most of its findings name, and is allowed absent ranks.\n"
    )
    page.say("### Captured cases that hold dumps\n")
    cases = accuracy.Tally()
    odd: list[str] = []
    missed: list[str] = []
    for judged in accuracy.judge_cases(ROOT / "tests" / "cases", torch):
        cases.add("captured on four and two H200s", judged)
        odd += wrongs(judged)
    tools = ["rankmuster, dumps alone", "rankmuster, all planes"]
    theirs = ["torchfrtrace"] if torch is not None else []
    for line in cases.table([*tools, *theirs], "cases"):
        page.say(line)
    page.say(f"\n### Planted faults: one in {one_in} of the grid\n")
    by_kind, by_layout = accuracy.Tally(), accuracy.Tally()
    for judged in accuracy.judge(grid.points(one_in=one_in), torch):
        by_kind.add(judged.kind, judged)
        by_layout.add(judged.layout, judged)
        odd += wrongs(judged)
        if overlooked(judged.said["rankmuster"], judged.truth):
            missed.append(f"{judged.name}; `{judged.command}`")
    for tally, head in ((by_kind, "fault"), (by_layout, "layout")):
        for line in tally.table(["rankmuster", *theirs], head):
            page.say(line)
        page.say()
    page.say(f"Jobs that stand still and were called healthy by rankmuster: {len(missed)}.\n")
    for line in missed[:MOST_NAMED]:
        page.say(f"- {line}")
    page.say("Wrong or crashed, of rankmuster: " + ("none.\n" if not odd else "\n"))
    for line in odd[:MOST_NAMED]:
        page.say(f"- {line}")


def wrongs(judged: accuracy.Judged) -> list[str]:
    """Every answer of rankmuster that is wrong or a crash, with how to make the point again."""
    return [
        f"{tool}: {judged.name}: {answer.said}, named {sorted(answer.culprits or ())}, truth "
        f"{list(judged.truth.culprits)}; `{judged.command}`"
        for tool, answer in judged.said.items()
        if tool.startswith("rankmuster") and judged.score(tool) in (Score.WRONG, Score.CRASH)
    ]


if __name__ == "__main__":
    main()
