"""How long the canonical form of a node's graph takes: python benchmarks/fingerprint_bench.py (best of ten, ms)."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from baseline.fingerprint.build_path import h200_vm, hgx, near_matrix, without_sys
from baseline.fingerprint.test_topology_hash import rack, wide
from rankmuster.baseline.fingerprint.topology import topology_of

NODES = {
    "4 GPUs of a virtual machine": h200_vm(),
    "8 GPUs, 8 NICs": hgx(),
    "8 GPUs, 16 more NICs": wide(),
    "72 GPUs": rack(),
    "72 GPUs by matrix alone": without_sys(replace(rack(), matrices={"m": near_matrix(72, "NV18")})),
}

for name, path in NODES.items():
    taken = []
    for _ in range(10):
        began = time.perf_counter()
        topology_of(path)
        taken.append(time.perf_counter() - began)
    print(f"{name:32} {min(taken) * 1e3:7.2f} ms")
