"""`rankmuster watch` as a child that is started again whenever it ends: this process must not end with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import environment
from rankmuster.adapters.into_file import ROOT

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
WELL_SECONDS = 120.0
"""Of work after which the pause is the first one again."""

END_SECONDS = 3.0


class Watching:
    """Keeps it running in a thread of its own from `start` until `close`. `folder`: of its settings and its state."""

    def __init__(
        self, folder: Path, settings: dict[str, Any], say: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self.state = folder / "state"
        self._config = folder / "watch.yaml"
        self._settings = {**settings, "state": str(self.state)}
        self._say = say
        self._clock = clock
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="watch", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._end.set()
        with self._lock:
            child = self._child
        if child is not None:
            with contextlib.suppress(OSError):
                child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_SECONDS)
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._end.is_set():
            begun = self._clock()
            how = self._once()
            if self._end.is_set():
                return
            pause = FIRST_PAUSE if self._clock() - begun > WELL_SECONDS else min(2 * pause, LONGEST_PAUSE)
            self._say(f"the watch {how}; it is started again in {pause:.0f} s")
            self._end.wait(pause)

    def _once(self) -> str:
        try:
            self._config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._config.write_text(json.dumps(self._settings), encoding="ascii")
            with self._lock:
                if self._end.is_set():
                    return "was not started"
                child = self._child = subprocess.Popen(  # noqa: S603 - our own program
                    [*OWN, "watch", "--config", str(self._config)],
                    stdin=subprocess.DEVNULL,
                    env=environment(),
                    cwd=ROOT,
                    start_new_session=True,
                )
        except (OSError, subprocess.SubprocessError) as error:
            return f"could not be started ({error})"
        status = child.wait()
        return f"ended with status {status}"
