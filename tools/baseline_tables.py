"""Sections of docs/measured.md about admission on GPUs, the history and drift, from the numbers that were measured."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 10} KiB" if size_bytes < MIB else f"{size_bytes >> 20} MiB"


def on_gpus(found: dict[str, Any]) -> str:
    """docs/measured/gpu-admission.json."""
    rows = found["rows"]
    apart = [
        abs(row["median"] / row["reference_median"] - 1) * 100
        for row in rows
        if row["reference_median"] and row["size_bytes"] >= 16 * MIB
    ]
    healthy = found["healthy"]
    text = [
        "## Admission on GPUs\n",
        f"{found['machine']}, NCCL {found['nccl']}, {found['date']}: `python tools/gpu_admission.py --history "
        f"{found['history_runs']} --healthy {healthy['admissions']}`, every run in fresh processes.\n",
        f"- {found['history_runs']} runs of the built-in benchmark (`links`) made the history: {found['incomplete']} "
        f"incomplete, {found['wrong_elements']} wrong elements.",
        f"- {healthy['passed']} of {healthy['admissions']} healthy admissions passed; re-tests: {healthy['retests']}.",
        f"- From 16 MiB on the built-in benchmark's median bus bandwidth is within {max(apart):.1f} % of what NCCL "
        "alone gives (`tools/nccl_reference.cu`: one process, operations back to back, one clock over them, which is "
        "nccl-tests' method), measured on the same GPUs before, between and after.",
        "- An admission watches links and processes while it measures: its medians are beside the history's.\n",
        "| operation | size | GB/s, lowest | median | highest | median when admitting | NCCL alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        alone = f"{row['reference_median']:.1f}" if row["reference_median"] else "-"
        text.append(
            f"| {row['operation']} | {_size(row['size_bytes'])} | {row['lowest']:.1f} | {row['median']:.1f} | "
            f"{row['highest']:.1f} | {row['admit_median']:.1f} | {alone} |"
        )
    text += [
        "\nWhat was made wrong, one at a time, and what was answered. Level: of the class's median, plateau.\n",
        "| made wrong | decision | first reason | all_reduce | all_gather | all_to_all | send_recv |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found["faults"]:
        levels = [one["plateau"].get(name) for name in ("all_reduce", "all_gather", "all_to_all", "send_recv")]
        told = " | ".join("not judged" if level is None else f"{level:.2f}" for level in levels)
        text.append(f"| {one['name'].replace('-', ' ')} | {one['decision']} | {one['reason']} | {told} |")
    return "\n".join(text) + "\n\n"


def history(found: dict[str, Any]) -> str:
    """docs/measured/history.json."""
    text = [
        "## The history with a million results\n",
        f"`make bench-history`, {found['machine']}, Python {found['python']}: one class with 1,000 nodes, 30 days and "
        "33 sizes, which is the worst there is. A decision is reading the class and its kin, and the judgement.\n",
        "| database | results | filled in s | first decision of a process, ms | longest | later ones, ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL")):
        one = found.get(name)
        if one:
            first, later = one["first_in_a_process"]["decision"], one["again"]["decision"]
            text.append(
                f"| {title} | {one['results']:,} | {one['fill_s']:.1f} | {first['median_ms']:.0f} | "
                f"{first['longest_ms']:.0f} | {later['median_ms']:.0f} |"
            )
    return "\n".join(text) + "\n\n"


def drift(found: dict[str, Any]) -> str:
    """docs/measured/drift-fleet.json."""
    answers = found["answers"]
    text = [
        "## Drift on simulated fleets\n",
        "`make simulate-drift`: results with the noise that was fitted to the captured runs, one run a node and day.\n",
        "| healthy fleet | looks | findings a look | called systematic |",
        "|---|---|---|---|",
    ]
    for name, one in answers.items():
        if "findings_per_look" in one:
            text.append(
                f"| {name.replace('_', ' ')} | {one['looks']} | {one['findings_per_look']:.2f} | "
                f"{one['systematic_per_look']:.2f} |"
            )
        elif "new_findings" in one:
            text.append(f"| {name.replace('_', ' ')} | {one['days']} | {one['new_findings_per_day']:.2f} | - |")
    text += ["\n| one node | fleets | found | others a look |", "|---|---|---|---|"]
    for name, one in answers.items():
        if "found" in one:
            text.append(
                f"| {name.replace('_', ' ')} | {one['fleets']} | {one['found']:.0%} | {one['others_per_look']:.2f} |"
            )
    text += ["\n| rollout of a driver | fleets | stopped | driver named | exactly its nodes |", "|---|---|---|---|---|"]
    for name, one in answers.items():
        if "stopped" in one:
            text.append(
                f"| {name.replace('_', ' ')} | {one['fleets']} | {one['stopped']:.0%} | {one['driver_named']:.0%} | "
                f"{one['exact']:.0%} |"
            )
    return "\n".join(text) + "\n\n"
