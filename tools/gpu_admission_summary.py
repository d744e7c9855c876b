"""What `tools/gpu_admission.py` left in a folder, as the numbers that docs/measured.md shows.

    python tools/gpu_admission_summary.py FOLDER --machine "two H200s ..." --date 2026-11-30

It prints docs/measured/gpu-admission.json.
Beside the runs and records it reads `ref*.jsonl`, what `tools/nccl_reference.cu` printed before and after them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any


def cells(run: dict[str, Any]) -> dict[tuple[str, int], float]:
    """(operation, bytes) -> bus bandwidth in GB/s."""
    return {(one["cell"]["operation"], one["cell"]["size_bytes"]): one["busbw"] for one in run["measurements"]}


def wrong(run: dict[str, Any]) -> int:
    """Elements with a wrong value, over all measurements."""
    return sum(one["wrong"] for one in run["measurements"])


def main() -> int:
    """Prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--date", required=True)
    args = parser.parse_args()
    runs = [json.loads(path.read_text().splitlines()[0]) for path in sorted(args.folder.glob("run-*.json"))]
    healthy = [json.loads(path.read_text()) for path in sorted(args.folder.glob("healthy-*.json"))]
    faults = json.loads((args.folder / "summary-faults.json").read_text())["faults"]
    reference: dict[tuple[str, int], list[float]] = {}
    for path in sorted(args.folder.glob("ref*.jsonl")):
        for line in path.read_text().splitlines():
            one = json.loads(line)
            reference.setdefault((one["operation"], one["size_bytes"]), []).append(one["busbw"])
    rows = []
    for key in cells(runs[0]):
        kept = sorted(cells(run)[key] for run in runs)
        admitted = sorted(cells(record["runs"][0])[key] for record in healthy)
        held_to = reference.get(key)
        rows.append(
            {
                "operation": key[0],
                "size_bytes": key[1],
                "lowest": kept[0],
                "median": median(kept),
                "highest": kept[-1],
                "admit_median": median(admitted),
                "reference_median": median(held_to) if held_to else None,
            }
        )
    found = {
        "machine": args.machine,
        "date": args.date,
        "nccl": runs[0]["nccl_version"],
        "gpus": len(runs[0]["ranks"]),
        "history_runs": len(runs),
        "incomplete": sum(run["state"] != "complete" for run in runs),
        "wrong_elements": sum(wrong(run) for run in runs),
        "rows": rows,
        "healthy": {
            "admissions": len(healthy),
            "passed": sum(record["decision"] == "pass" for record in healthy),
            "retests": sum(record["retests"] for record in healthy),
        },
        "faults": [
            {
                "name": one["name"],
                "decision": one["decision"],
                "reason": one["reasons"][0],
                "plateau": {
                    judged["operation"]: judged["statistic"]
                    for judged in json.loads((args.folder / f"{one['name']}.json").read_text())["judgements"]
                    if judged["regime"] == "plateau"
                },
            }
            for one in faults
        ],
    }
    json.dump(found, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
