"""Which signals a node and an instance have, by the configuration; and what of the node's is whose."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.machine import Machine
from rankmuster.collect.target import Target
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.plane import Plane
from rankmuster.watch.config import HardwareSource, WatchConfig
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.signals import gpu_rows
from rankmuster.watch.signals.dcgm import DcgmSignal
from rankmuster.watch.signals.engine import EngineSignal, servers_of
from rankmuster.watch.signals.framework_log import FrameworkLogSignal
from rankmuster.watch.signals.gpu_instance import for_instance, share_of
from rankmuster.watch.signals.gpu_rdma import RdmaLook, with_rdma
from rankmuster.watch.signals.inspector import InspectorSignal
from rankmuster.watch.signals.kernel import KernelSignal
from rankmuster.watch.signals.nccl_log import NcclLogSignal
from rankmuster.watch.signals.nvml import NvmlSignal
from rankmuster.watch.signals.processes import ProcessSignal
from rankmuster.watch.signals.ras import RasSignal
from rankmuster.watch.signals.ras_access import RasAccess
from rankmuster.watch.signals.ras_events import RasEventsSignal
from rankmuster.watch.signals.rdma import RdmaSignal
from rankmuster.watch.signals.signal import Heard, Signal

NVML_SECONDS = 60.0
"""After the last sample through NVML, for which a DCGM exporter's page is not believed beside it."""

RDMA_LOOKS = 8
"""Looks at the RDMA ports that are kept to interpolate between: samples of GPUs are of the newest two."""


class Signals:
    """Makes them; one for the whole watch. `clock`: monotonic seconds, `now`: unix seconds."""

    def __init__(
        self, config: WatchConfig, machine: Machine, clock: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._config = config
        self._machine = machine
        self._clock = clock
        self._now = now
        self._nvml: NvmlSignal | None = None
        self._dcgm: DcgmSignal | None = None
        self._nvml_at: float | None = None
        self._rdma: deque[RdmaLook] = deque(maxlen=RDMA_LOOKS)

    def node(self) -> tuple[Signal, ...]:
        """Those that speak of the node, whichever instances run on it."""
        config, host, period = self._config, self._machine.hostname, self._config.period
        source = config.hardware.source
        found: list[Signal] = []
        often = WatchSettings.of(period).sample_seconds
        # Ports first: what they counted is put beside the GPUs' samples of the same moment.
        if config.hardware.rdma and source is not HardwareSource.NONE:
            found.append(RdmaSignal(self._machine.sys, period=often, clock=self._clock, now=self._now))
        # Where the kernel log can be read it has every Xid, with its process; else the driver's own events stand in.
        xids = not (config.logs.enabled and config.logs.kernel and self._kernel_log())
        if source in (HardwareSource.AUTO, HardwareSource.NVML):
            self._nvml = NvmlSignal(host, period=often, xids=xids, clock=self._clock, now=self._now)
            found.append(self._nvml)
        if source in (HardwareSource.AUTO, HardwareSource.DCGM) and config.hardware.dcgm_url:
            self._dcgm = DcgmSignal(
                config.hardware.dcgm_url, host, period=period, xids=xids, clock=self._clock, now=self._now
            )
            found.append(self._dcgm)
        if config.logs.enabled and config.logs.kernel:
            found.append(KernelSignal(machine=self._machine, period=period, clock=self._clock, wall=self._now))
        return tuple(found)

    def own_gpus(self) -> Mapping[int, tuple[Gpu, ...]]:
        """Process by its own number -> its GPUs, where our node agent's page says: in a pod nobody else can."""
        return self._dcgm.processes if self._dcgm is not None else {}

    def instance(self, target: Target) -> tuple[Signal, ...]:
        """Those of one instance. Without processes here (its pages alone are given) fewer of them."""
        config, machine, period = self._config, self._machine, self._config.period
        found: list[Signal] = []
        servers = self.servers(target)
        if servers:
            found.append(
                EngineSignal(
                    servers,
                    config.engine.mappings,
                    clock=self._clock,
                    unix_now=self._now,
                    engine=target.engine,
                    period=period,
                )
            )
        if not target.processes:
            return tuple(found)
        found.append(ProcessSignal(target, machine, period, now=self._now, clock=self._clock))
        if config.ras.enabled:
            access = RasAccess(target, machine, config.ras.risk, now=self._now, clock=self._clock)
            found.append(RasSignal(access, config.ras.seconds))
            if config.ras.events:
                found.append(RasEventsSignal(access, period))
        if config.logs.enabled:
            files = self._files(target.name)
            found.append(
                FrameworkLogSignal(
                    target, files=files, machine=machine, period=period, clock=self._clock, wall=self._now
                )
            )
            found.append(NcclLogSignal(target, machine=machine, period=period, clock=self._clock, wall=self._now))
            inspector = InspectorSignal(target, folders=config.logs.inspector, period=period, clock=self._clock)
            if inspector.wanted:
                found.append(inspector)
        return tuple(found)

    def servers(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """The instance's servers with their addresses; what must be the same for its engine signal to stay."""
        if not self._config.engine.enabled:
            return ()
        return servers_of(self._config.engine, target.name, target.metrics_urls)

    def _kernel_log(self) -> bool:
        """Whether the kernel's own ring may be read."""
        try:
            os.close(os.open(self._machine.dev / "kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError:
            return False
        return True

    def given_url(self, name: str) -> str | None:
        """The metrics page that the configuration gives for an instance; of several the first."""
        given = self._config.engine.urls.get(name, self._config.engine.urls.get("*", ()))
        return given[0] if given else None

    def _files(self, name: str) -> Sequence[Path]:
        files = self._config.logs.files
        return (*files.get(name, ()), *files.get("*", ()))

    def share(self, heard: Heard, targets: Iterable[Target]) -> Iterator[tuple[str, Heard]]:
        """What one word of the node's signals means for each instance: its own GPUs' samples, all of the kernel's."""
        observation = heard.observation
        targets = tuple(targets)
        if isinstance(observation, RdmaLook):
            self._rdma.append(observation)
            return
        if not isinstance(observation, GpuTrack):
            yield from ((target.name, heard) for target in targets)
            return
        if observation.source == gpu_rows.SOURCE:
            self._nvml_at = heard.now
        elif self._nvml_at is not None and heard.now - self._nvml_at < NVML_SECONDS:
            return  # DCGM's page stands in where NVML cannot be asked; counters of both do not mix
        sole = len(targets) == 1
        listed = self._nvml.listed if self._nvml is not None else ()
        track = with_rdma(observation, tuple(self._rdma), sole=sole)
        for target in targets:
            own = for_instance(track, share_of(target, listed, sole=sole))
            if own is not None:
                yield target.name, Heard(heard.now, heard.unix, own, Plane.HARDWARE)
