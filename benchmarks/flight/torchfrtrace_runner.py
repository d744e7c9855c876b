"""Runs torch's own analyser on many folders in one process; started by the interpreter of an environment with torch.

    python torchfrtrace_runner.py < FOLDERS

A line in is a folder; a line out is JSON: `crash`, or `sets`: the ranks that each of its findings names, in order, and
`findings`: how many it printed; `absent`: the ranks for whose dumps it could not decide. "missing ranks" and "Culprit
rank" are the two ways in which it names ranks. Ranks whose dumps are absent are allowed for, as its command does with
--allow-incomplete-ranks; without that it stops at once.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys

from torch.distributed.flight_recorder.components.builder import build_db
from torch.distributed.flight_recorder.components.config_manager import JobConfig
from torch.distributed.flight_recorder.components.loader import read_dir

MISSING = re.compile(r"missing ranks: \{([\d, ]*)\}")
ABSENT = re.compile(r"missed FR dumps from ranks \(\{([\d, ]*)\}\)")
CULPRITS = re.compile(r"error msg: (.*)")
FINDINGS = ("Not all ranks joining", " has errors", "Input/output mismatch in the collective")
CULPRIT = re.compile(r"Culprit rank (\d+)")


def analyse(folder: str) -> dict[str, object]:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger("Flight Recorder")
    logger.handlers[:] = [handler]
    logger.propagate = False
    try:
        args = JobConfig().parse_args([folder, "--allow-incomplete-ranks"])
        details, version = read_dir(args)
        build_db(details, args, version)
    except SystemExit as end:
        return {"crash": f"SystemExit {end.code}"}
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {error}"[:300]}
    finally:
        logger.handlers[:] = []
    text = said.getvalue()
    sets = []
    for line in text.splitlines():
        missing = MISSING.search(line)
        culprits = CULPRITS.search(line)
        if missing:
            sets.append(sorted(int(rank) for rank in missing.group(1).split(",") if rank.strip()))
        elif culprits:
            sets.append(sorted(set(map(int, CULPRIT.findall(culprits.group(1))))))
    absent = sorted({int(rank) for found in ABSENT.findall(text) for rank in found.split(",") if rank.strip()})
    return {"sets": sets, "absent": absent, "findings": sum(text.count(head) for head in FINDINGS)}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(analyse(line.strip())), flush=True)


if __name__ == "__main__":
    main()
