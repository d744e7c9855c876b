"""Stands for `rankmuster kube admit-job` in the image of a node's test: says at once what the test wants.

    python kube_fake_admit.py pass|fail|hang|broken kube admit-job ...
"""

from __future__ import annotations

import sys
import time

if __name__ == "__main__":
    wanted = sys.argv[1]
    if wanted == "hang":
        time.sleep(1e6)
    print("not written yet", flush=True)
    sys.exit(1)
