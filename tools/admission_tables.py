"""The tables of docs/measured.md, Admission statistics, from what tools/simulate_fleet.py found."""

from __future__ import annotations

from typing import Any

HEADING = "## Admission statistics"
REGIMES = ("plateau", "transition", "latency")
INTRODUCTION = """\
`python tools/simulate_fleet.py` (seed {seed}; {cpu} s of one core): fleets of simulated nodes whose results go through
the real judge (`docs/baseline-statistics.md`). Scatter between sizes and processes, and the two modes of small sizes,
are fitted to eight healthy runs on four H200s; spreads of nodes (0.7 %), days (0.2 %) and sessions (0.4 %) are
assumed, with Student's t of 5 degrees of freedom for tails, 1 % of the runs contended (of which a twentieth goes
unnoticed) and 0.5 % errored. Each admission measures two operations of 16 sizes: six groups, four of which may
refuse."""


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def _part(row: dict[str, Any], name: str, of: str = "admissions") -> str:
    return f"{100 * row[name] / row[of]:.2f} %" if row[of] else "-"


def _history(row: dict[str, Any]) -> str:
    noise = f", scatter x {row['noise']:g}" if row["noise"] != 1 else ""
    return f"{row['runs']} runs, {row['nodes']} node{'s' if row['nodes'] > 1 else ''}{noise}"


def _names(found: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["run"] for row in found["captured"]))


def _standing(found: dict[str, Any], name: str, regime: str) -> str:
    rows = [row for row in found["captured"] if (row["run"], row["regime"]) == (name, regime)]
    return f"{' / '.join(sorted({row['standing'] for row in rows}))}: " + ", ".join(
        f"{row['statistic']:.3f}" for row in rows
    )


def _limits(found: dict[str, Any], regime: str) -> str:
    limits = [row["refuse_below"] for row in found["captured"] if row["regime"] == regime]
    return f"{min(limits):.2f} to {max(limits):.2f}"


def section(found: dict[str, Any]) -> str:
    """The part of docs/measured.md, with its heading."""
    s = found["studies"]
    lines = [
        HEADING,
        "",
        INTRODUCTION.format(seed=found["seed"], cpu=found["cpu_seconds"]),
        "",
        "### Captured runs on four H200s",
        "",
        "`all_reduce_perf` of nccl-tests 2.19.6; each healthy run against the other seven, changed ones against all "
        "eight. Figures: the median over sizes relative to the class, out of place and in place.",
        "",
        *_table(
            ["run", *(f"{regime}, refused below {_limits(found, regime)}" for regime in REGIMES)],
            [[name, *(_standing(found, name, regime) for regime in REGIMES)] for name in _names(found)],
        ),
        "### Healthy nodes",
        "",
        "Budget: 1 % of the admissions, all operations, regimes and sizes together. `doubted`: what would be refused "
        "without measuring again.",
        "",
        *_table(
            ["history", "admissions", "refused at once", "doubted", "refused in the end", "latency said to be slow"],
            [
                [_history(r), r["admissions"], *(_part(r, n) for n in ("outright", "doubted", "refused", "latency"))]
                for r in s["healthy"]
            ],
        ),
        "### Bandwidth loss at 16 MiB and above",
        "",
        *_table(
            ["history", "loss", "admissions", "refused at once", "doubted", "refused in the end"],
            [
                [
                    _history(r),
                    f"{r['loss_percent']:.0f} %",
                    r["admissions"],
                    *(_part(r, n) for n in ("outright", "doubted", "refused")),
                ]
                for r in s["found"]
            ],
        ),
        "### Bad nodes inside the history",
        "",
        *_table(
            ["history", "bad nodes in it", "their loss", "new node's loss", "admissions", "refused in the end"],
            [
                [
                    _history(r),
                    f"{r['bad_nodes_percent']:.0f} %",
                    f"{r['bad_loss_percent']:.0f} %",
                    f"{r['loss_percent']:.0f} %",
                    r["admissions"],
                    _part(r, "refused"),
                ]
                for r in s["contaminated"]
            ],
        ),
        "### One bad size, and losses between 64 KiB and 16 MiB",
        "",
        "History of 30 runs of 30 nodes.",
        "",
        *_table(
            ["what", "loss", "admissions", "refused at once", "refused in the end"],
            [
                [name, f"{r['loss_percent']:.0f} %", r["admissions"], _part(r, "outright"), _part(r, "refused")]
                for name, key in (("64 MiB alone", "one size"), ("128 KiB to 8 MiB", "transition"))
                for r in s[key]
            ],
        ),
        "### What can be found up to 64 KiB",
        "",
        "Time longer by the given factor, history of 30 runs of 30 nodes. Two healthy modes stand up to 1.4 apart, so "
        "less than that is not to be told from health by its level. Latency refuses nobody.",
        "",
        *_table(
            ["processes", "time", "admissions", "said to be slow"],
            [
                [r["processes"], f"x {1 / (1 - r['loss_percent'] / 100):.2f}", r["admissions"], _part(r, "latency")]
                for r in s["latency"]
            ],
        ),
        "### A fleet from its first day",
        "",
        "30 days, a tenth of the nodes admitted each day against a history that starts empty and takes in every "
        "complete run (the newest 1,000 count), with 5 % bad nodes from the start.",
        "",
        *_table(
            ["fleet", "nodes", "healthy admissions", "refused", "bad admissions", "their loss", "refused"],
            [
                [
                    r["fleet"],
                    r["nodes"],
                    r["healthy"],
                    _part(r, "healthy_refused", "healthy"),
                    r["bad"],
                    f"{r['loss_percent']:.0f} %",
                    _part(r, "bad_found", "bad"),
                ]
                for r in s["growth"]
            ],
        ),
        "### Changes of a class",
        "",
        "Series over 30 days, searched once; found: a point within 3 days of the change (for a gradual one, of any of "
        "its days). The smallest step that is called one is 1.5 %.",
        "",
        *_table(
            ["class", "runs", "change at 16 MiB and above", "series", "found", "a point elsewhere"],
            [
                [r["class"], r["runs"], r["change"], r["series"], _part(r, "found", "series"), _elsewhere(r)]
                for r in s["changes"]
            ],
        ),
        "### Steps of a single node",
        "",
        *_table(
            ["runs before", "runs after", "loss at 16 MiB and above", "series", "found", "a step elsewhere"],
            [
                [
                    r["before"],
                    r["after"],
                    f"{r['loss_percent']:.0f} %",
                    r["series"],
                    _part(r, "found", "series"),
                    _elsewhere(r),
                ]
                for r in s["node steps"]
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _elsewhere(row: dict[str, Any]) -> str:
    return _part(row, "elsewhere", "series")
