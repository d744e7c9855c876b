"""The judgement in words: how it was made, and what it rests on."""

from __future__ import annotations

from math import exp

from rankmuster.baseline.reference import GroupReference
from rankmuster.baseline.regimes import Group
from rankmuster.baseline.thresholds import RegimeThresholds
from rankmuster.model.judgement import CellJudgement, Regime, Standing
from rankmuster.model.sizes_text import size_text


def level_words(
    standing: Standing,
    level: float,
    refuse: float,
    retest: float,
    sizes: int,
    decided: bool,
    cells: tuple[CellJudgement, ...],
) -> str:
    """Why the level over all sizes stands where it does; limits as logarithms below the class."""
    over = "its only size" if sizes == 1 else f"{sizes} sizes"
    said = f"{exp(level):.3f} of the class's median over {over}"
    if standing is Standing.ABOVE:
        return (
            f"{said}: faster than the class ever was, so the same thing may not have been measured (ranks, sizes, path)"
        )
    if standing is Standing.WITHIN:
        return f"{said}, refused below {exp(-refuse):.3f}"
    if standing is Standing.BORDERLINE:
        return f"{said}, between {exp(-refuse):.3f} and {exp(-retest):.3f}: to be measured again in a fresh process"
    known = [cell for cell in cells if cell.ratio is not None]
    worst = min(known, key=lambda cell: cell.ratio or 0.0)
    decided_by = ", after re-tests" if decided else ""
    return f"{said}, refused below {exp(-refuse):.3f}{decided_by}: {_cell_words(worst)}"


def below_words(standing: Standing, cell: CellJudgement, decided: bool) -> str:
    """Why one size decides while the level over all of them does not."""
    assert cell.limit is not None
    said = f"one size stands out: {_cell_words(cell)}, refused {_beyond(cell)}"
    if standing is Standing.BORDERLINE:
        return f"{said}: to be measured again in a fresh process"
    return f"{said}, after re-tests" if decided else said


def _cell_words(cell: CellJudgement) -> str:
    assert cell.center is not None
    return (
        f"{cell.value:.4g} {cell.unit} at {size_text(cell.cell.size_bytes)} "
        f"where the class has {cell.center:.4g} {cell.unit}"
    )


def _beyond(cell: CellJudgement) -> str:
    return f"{'above' if cell.unit == 'us' else 'below'} {cell.limit:.4g} {cell.unit}"


def method_words(group: Group, known: GroupReference, processes: int, decided: bool, rules: RegimeThresholds) -> str:
    """The statistic with its parameters, so that a person can follow it."""
    level = known.level
    two_moded = sum(len(cell.modes.centers) > 1 for cell in known.cells.values())
    pooled = "the lower quartile" if group.regime is Regime.LATENCY else "the median"
    parts = [
        f"median over {len(known.cells)} sizes of ln(time / class), and each size alone",
        f"Student's t with {level.dof:.1f} degrees of freedom, predictive spread {100 * level.scale:.2f} %",
        f"never refused within {100 * (1 - exp(-rules.level_refuse)):.0f} % "
        f"(one size: {100 * (1 - exp(-rules.size_refuse)):.0f} %)",
    ]
    if two_moded:
        parts.append(f"{two_moded} sizes have more than one healthy mode, counted from the slowest")
    if known.unseen:
        parts.append(f"with {level.runs} runs a slower healthy mode may be unseen: {known.unseen:.0%} more is allowed")
    if processes > 1:
        parts.append(f"{pooled} of {processes} processes" + (", which decides" if decided else ""))
    if level.nodes == 1:
        parts.append(f"all history is of one node, a spread of {100 * rules.node_sd:.1f} % between nodes is assumed")
    if level.left_out:
        parts.append(f"{level.left_out} of {level.nodes} nodes of the history stand apart and are left out")
    return "; ".join(parts)
