"""Whether a look gives reason to sample the GPUs again before the next one.

Reading a GPU's NVLink bytes takes 2.7 ms of a processor (measured on an H200, driver 580), a hundred times what its
utilisation takes: twice a look for eight GPUs would be the most that the watch costs. So it is done when something may
have stopped: then a stop is told at half a period.
"""

from __future__ import annotations

from rankmuster.diagnose.spin import rates
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.fault import Progress
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.model import Judgement


def restless(view: LookResult, judged: Judgement, limits: Thresholds) -> bool:
    """After the look that made `view` and `judged`; `limits`: as it had them.

    A GPU that ran without exchanging a byte since its last sample, or an engine with load that counted nothing.
    """
    if judged.state is Progress.STOPPED or view.gone:
        return False
    if any(one.loaded and not one.advanced and one.seconds > 0 for one in view.intervals):
        return True
    for track in view.tracks.values():
        if len(track.time) > 1 and track.sm_percent[-1] >= limits.spin_percent:
            rate = float(rates(track)[-1])
            if rate < limits.moving_kib_per_s:  # not where nothing is counted: NaN
                return True
    return False


def shows_stop(view: LookResult) -> bool:
    """Whether a look between two others shows a stop that needs no second one to be believed."""
    return view.progress is Progress.STOPPED and view.decisive and not view.gone
