"""Who is told of each look: the state file and the exporter, each so that its own trouble is nobody else's."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.adapters.child import environment
from rankmuster.watch.export import bundle_counts
from rankmuster.watch.export.state_file import NotWritten, StateFile
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.signals.signal import Counted, Heard
from rankmuster.watch.snapshot import Snapshot

if TYPE_CHECKING:  # the server of a page, 1 MB, for those who have one
    from rankmuster.watch.export.exporter import Exporter

COUNT_SECONDS = 60.0
"""For reading a bundle once more to count its calls: 2 s for dumps of 8 ranks with 2,000 entries each."""


class StateSink:
    """Writes the state file. `tell`: told once where that fails, and once where it works again.

    `stays`: whether the file is left at the end, for whoever wanted one look; else nobody takes it for what is.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None], *, stays: bool = False) -> None:
        self._file = StateFile(folder)
        self._stays = stays
        self._tell = tell
        self._failed = ""

    def update(self, snapshot: Snapshot) -> None:
        """One look."""
        try:
            self._file.write(snapshot)
        except NotWritten as error:
            if not self._failed:
                self._tell(f"{error}; the watch goes on without it")
            self._failed = str(error)
            return
        if self._failed:
            self._failed = ""
            self._tell("the state file is written again")

    def heard(self, instance: str, said: Heard | Counted) -> None:
        """Nothing of it stands in the file."""

    def stop_outcome(self, outcome: StopOutcome) -> None:
        """It stands in the next snapshot."""

    def close(self) -> None:
        """The watch ends."""
        if not self._stays:
            self._file.remove()


class ExportSink:
    """Feeds the exporter."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def update(self, snapshot: Snapshot) -> None:
        """One look."""
        self._exporter.update(snapshot)

    def heard(self, instance: str, said: Heard | Counted) -> None:
        """Whatever counts something."""
        if isinstance(said, Counted):
            self._exporter.counted(instance, said)
        else:
            self._exporter.heard(instance, said.observation)

    def stop_outcome(self, outcome: StopOutcome) -> None:
        """How it ended; what is in its bundle follows when it is counted."""
        name = outcome.notice.instance
        self._exporter.stop_outcome(name, outcome)
        if outcome.bundle is not None and not outcome.repeated:
            threading.Thread(target=self._count, args=(name, outcome.bundle), name="bundle-counts", daemon=True).start()

    def _count(self, instance: str, bundle: Path) -> None:
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                bundle_counts.command(bundle.resolve()),
                cwd="/",
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=COUNT_SECONDS,
                check=False,
            )
            self._exporter.bundle_counts(instance, bundle_counts.read(done.stdout))
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return  # counts of a bundle are good to have, and nothing waits for them

    def close(self) -> None:
        """Gives the port back."""
        self._exporter.close()
