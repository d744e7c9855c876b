"""Every number that watching turns on: a name, a unit, a reason and a source, in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.diagnose.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """The defaults judge a stop within 15 s at one look in 5 s (measured: docs/measured/watch-replay.json)."""

    period: float = 5.0
    """Seconds between two looks. Twice this and a little is the shortest stop that two looks can show."""

    still_looks: int = 2
    """Intervals between looks in which nothing moves before that is a stop. One would be every pause that two scrapes
    meet; three would miss the 15 s."""

    samples_per_look: int = 2
    """GPUs are sampled this often in a period, so that one sample that fails or comes at a bad moment costs half a
    period. Their counters cost far less to read than a metrics page."""

    still_samples: int = 3
    """Intervals between two samples in which GPUs spin and no byte moves before that is a stop: 7.5 s at the defaults.
    The GPU waits for nothing else for so long: collectives take milliseconds, and the pause between two is idle."""

    jitter: float = 0.1
    """Part of a period by which looks may come early: two intervals of 4.6 s count as two periods."""

    window_seconds: float = 120.0
    """How far back a look sees pages and samples: several intervals of ordinary work before those of a stop."""

    poll_seconds: float = 300.0
    """The same for RAS polls, which come once a minute where they may be asked at all."""

    line_seconds: float = 300.0
    """The same for lines of logs: a watchdog's line stands for what follows it."""

    most_pages: int = 64
    """Pages kept of one server: a window at 5 s holds 25, and one at 2 s fits."""

    most_servers: int = 64
    """Servers whose pages are kept: the data-parallel replicas of one instance."""

    most_samples: int = 128
    """Samples kept of one GPU: a window at one in a second fits."""

    most_gpus: int = 256
    """GPUs whose samples are kept."""

    most_polls: int = 16
    """RAS polls kept."""

    most_lines: int = 200
    """Observations kept of each other kind: the newest; a log that repeats itself says nothing new."""

    task_looks: int = 3
    """Looks at a process that count: a process that is stopped now was not a minute ago."""

    jump_seconds: float = 1.0
    """From here on a difference between wall clock and monotonic clock is a jump: slewing changes 0.5 ms a second at
    most (adjtimex(2)), and a leap second is one."""

    stale_looks: float = 3.0
    """Periods after which a plane that spoke before is named stale: one failed scrape is common, three are not."""

    start_seconds: float = 600.0
    """How long a start may take in which ranks wait for each other with spinning GPUs: loading of weights ends with a
    barrier. vLLM gives its engine 600 s to be ready (VLLM_ENGINE_READY_TIMEOUT_S), as torch gives a NCCL call."""

    start_ends: bool = False
    """Whether an instance that has shown nothing when `start_seconds` are over has stopped. Only who knows how long its
    engine loads can say so: without such a word silence is no stop."""

    first_step_seconds: float = 120.0
    """How long the first request of a start may take to its first token: kernels are compiled for it."""

    steady_seconds: float = 30.0
    """Where no engine is scraped, how long GPUs must exchange bytes without a break before a start counts as over.
    Loading of weights exchanges none, a profile run does for seconds; a capture of graphs may take longer, and after it
    the engine is up."""

    undecided_looks: int = 2
    """Looks in a row that must say stopped where they rest on waiting alone, not on anything that was seen to stand
    still: half of the single RAS polls of a healthy job show ranks apart (`ras_gap_seconds`)."""

    resume_looks: int = 2
    """Looks in a row that must show work, or its absence, before a stop is over: one burst of retries is none."""

    same_stop_seconds: float = 60.0
    """A stop within this of the end of the last one is the same one: nobody is called twice."""

    hold_seconds: float = 15.0
    """How long a state stands while no plane tells: as long as a stop may take to be seen."""

    habit_gaps: int = 20
    """Pauses between two advances from which the instance's own habit is known."""

    habit_seconds: float = 6 * 3600.0
    """Seconds under load after which a pause is no habit any more: what a rollout compiled, or last night's batch did,
    must not make today's stops late. An hourly long prompt has pauses enough within it."""

    habit_factor: float = 2.0
    """An instance that pauses for long by habit has stopped after this many of its long pauses."""

    habit_most_seconds: float = 120.0
    """... and after this in any case."""

    @classmethod
    def of(cls, period: float) -> WatchSettings:
        """The defaults for another period (seconds): windows hold as many looks, and nothing is forgotten earlier."""
        given = cls()
        scale = max(period / given.period, 1.0)
        return replace(
            given,
            period=period,
            window_seconds=given.window_seconds * scale,
            poll_seconds=given.poll_seconds * scale,
            line_seconds=given.line_seconds * scale,
            hold_seconds=given.hold_seconds * scale,
        )

    @property
    def sample_seconds(self) -> float:
        """Seconds between two samples of the GPUs."""
        return self.period / self.samples_per_look

    def thresholds(self, habit: float = 0.0) -> Thresholds:
        """Those of `diagnose` for looks at this period; `habit`: seconds of this instance's longest ordinary pauses.

        Looks that follow each other faster show a stop sooner, and no sooner than `diagnose` believes one.
        """
        still = max(self.still_looks * self.period * (1 - self.jitter), DIAGNOSE.stall_seconds)
        spinning = max(self.still_samples * self.sample_seconds * (1 - self.jitter), DIAGNOSE.hardware_seconds)
        return replace(
            DIAGNOSE,
            stall_seconds=max(still, min(self.habit_factor * habit, self.habit_most_seconds)),
            # A counter that moves at every scrape has the period for its ordinary gap, whatever its steps take.
            stall_gaps=self.still_looks * (1 - self.jitter),
            stall_pages=self.still_looks + 1,
            patient=True,
            first_step_seconds=self.first_step_seconds,
            hardware_seconds=spinning,
            # Samples may come once a look only (an exporter's page): two intervals of those are long enough.
            hardware_samples=self.still_looks + 1,
        )


DEFAULTS = WatchSettings()
