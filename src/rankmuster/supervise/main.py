"""Puts a supervisor together, and runs it to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from rankmuster.supervise import naming, place, processes, record
from rankmuster.supervise.control import Control
from rankmuster.supervise.gpu_look import GpuLook
from rankmuster.supervise.group import HostGroup
from rankmuster.supervise.keeper import FAILED, Keeper
from rankmuster.supervise.settings import RunSettings
from rankmuster.supervise.take_over import CannotTakeOver, take_over

REFUSED = 3
"""Exit status of bad usage in this program: nothing was started."""


def supervise(settings: RunSettings, environment: Mapping[str, str], tell: Callable[[str], None]) -> int:
    """The exit status. `environment`: of the command, but for what its starts add."""
    try:
        taken = place.take(Path(settings.folder), settings.name)
    except place.PlaceRefused as error:
        tell(str(error))
        return REFUSED
    processes.become_subreaper()
    boot = naming.boot_id()
    try:
        remembered = record.read(taken.record)
    except record.RecordUnreadable as error:
        tell(f"{error}; it is begun anew")
        remembered = None
    try:
        remembered = take_over(settings, remembered, boot, tell)
    except CannotTakeOver as error:
        tell(str(error))
        return FAILED
    helpers: set[int] = set()
    group = HostGroup(
        settings, environment, taken.record, tell, GpuLook(helpers), remembered=remembered, boot=boot, helpers=helpers
    )
    keeper = Keeper(settings, group, tell)
    try:
        control = Control(taken.socket, keeper.handle)
    except OSError as error:
        tell(f"nobody can ask at {taken.socket}: {error.strerror or error}")
        return REFUSED
    try:
        return keeper.run()
    finally:
        control.close()
        os.close(taken.lock)
