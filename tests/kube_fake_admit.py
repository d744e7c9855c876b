"""Stands for `rankmuster kube admit-job` in the image of a node's test: says at once what the test of the test wants.

    python kube_fake_admit.py pass|fail|hang|broken kube admit-job ...

`pass` and `fail` are recorded runs of a real node, said in the Job's own words: nothing of how they are read is played.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "kube" / "admission")]


def main(wanted: str, node: str) -> int:
    print(f"a test of {node} that comes to: {wanted}", flush=True)
    if wanted == "hang":
        time.sleep(1e6)
    if wanted == "broken":
        return 1
    from kube_admission_world import GOOD_RUN, SLOW_RUN, alone_payload

    from rankmuster.adapters.kube.job_words import message, result_of

    payload = alone_payload(node, (GOOD_RUN if wanted == "pass" else SLOW_RUN,))
    log, summary = result_of(payload)
    sys.stdout.buffer.write(log)
    sys.stdout.flush()
    Path("/dev/termination-log").write_bytes(message(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["NODE_NAME"]))
