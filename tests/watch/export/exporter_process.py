"""An exporter as a process of its own: prints its address, then makes the look that each line of its input names.

A line is a state of `Progress`; a line with several words is one instance each.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from build_snapshots import VIEW, snapshot

from rankmuster.model.fault import Progress
from rankmuster.watch.export.exporter import Exporter
from rankmuster.watch.snapshot import StopView


def main() -> None:
    exporter = Exporter("127.0.0.1:0")
    print(*exporter.address, flush=True)
    before: dict[str, Progress] = {}
    stops: dict[str, int] = {}
    for line in sys.stdin:
        views = []
        for index, word in enumerate(line.split()):
            name, state = f"llm-{index}", Progress(word)
            new = state is Progress.STOPPED and before.get(name) is not Progress.STOPPED
            stops[name] = stops.get(name, 0) + new
            stop = StopView(time.time(), "1", "nothing moves") if stops[name] else None
            event = "stopped" if new else None
            views.append(replace(VIEW, name=name, state=state, event=event, stops=stops[name], last_stop=stop))
            before[name] = state
        exporter.update(snapshot(time.time(), *views))
        print("looked", flush=True)
    exporter.close()


if __name__ == "__main__":
    main()
