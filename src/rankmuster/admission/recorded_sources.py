"""What was recorded of a node as the source of an admission.

A run's own settings belong to the class it is judged in, whatever the fingerprint beside it says: they are what it ran
with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.kernel_source import kernel_of
from rankmuster.admission.past import Past
from rankmuster.admission.plan import Sources, Taken
from rankmuster.admission.recorded import Recorded
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.baseline.fingerprint.settings import NCCL_UNKNOWN
from rankmuster.model.benchmark import BenchmarkRun, Profile
from rankmuster.model.fingerprint import NONE, Fingerprint
from rankmuster.model.nccllog import NcclInit, NcclProblem, NcclTransport
from rankmuster.model.topology import RdmaPort
from rankmuster.model.unknown import Unknown


def recorded_sources(
    recorded: Recorded, past: Past, profile: Profile, given: Mapping[str, str], now: Callable[[], float]
) -> Sources:
    """Each run in turn; the node does not change. `given`: variables known to have been set (--env)."""
    look = _taken(recorded, profile, given)
    waiting = list(recorded.runs)

    def measure(_profile: Profile, attempt: int) -> BenchmarkRun:
        return waiting[attempt]

    return Sources(take=lambda: look, facts=lambda: _facts(recorded), measure=measure, now=now, past=past)


def _taken(recorded: Recorded, profile: Profile, given: Mapping[str, str]) -> Taken:
    ran = {name: value for run in recorded.runs[:1] for name, value in run.environment if changes_choices(name)}
    settings = {**ran, **{name: value for name, value in given.items() if changes_choices(name)}}
    path = recorded.path
    if path is None:
        return Taken(None, recorded.fingerprint or _nothing())
    known = {} if isinstance(path.nccl_settings, Unknown) else dict(path.nccl_settings)
    unread = isinstance(path.nccl_settings, Unknown)
    if settings and (unread or {**known, **settings} != known):
        conf = None if path.nccl_conf is None else tuple(name for name in path.nccl_conf if name not in settings)
        path = replace(path, nccl_settings={**known, **settings}, nccl_conf=conf)
    elif recorded.fingerprint is not None:
        return Taken(path, recorded.fingerprint)
    return Taken(path, fingerprint_of(path, profile_key=profile.key))


def _nothing() -> Fingerprint:
    """No fingerprint was given: nothing is known, and no history applies."""
    why = Unknown("no fingerprint was given; add the file of `rankmuster fingerprint`, or what nvidia-smi printed")
    return Fingerprint(
        host=None,
        taken_at=0.0,
        image_digest=why,
        cuda_version=why,
        nccl_version=why,
        pytorch_version=why,
        engine=why,
        engine_version=why,
        gpu_model=why,
        gpu_count=why,
        driver=why,
        topology_hash=why,
        nccl_test_profile=NONE,
        network_device_set=why,
        nic_order=why,
        settings={NCCL_UNKNOWN: why},
        kin_hash=why,
        class_hash=why,
        node_hash=why,
    )


def _facts(recorded: Recorded) -> NodeFacts:
    found = recorded.observations
    kernel = kernel_of(found)
    ports = tuple(each for each in found if isinstance(each, RdmaPort))
    return NodeFacts(
        kernel=kernel.events,
        kernel_whole=kernel.whole,
        services=kernel.services,
        ports=ports if ports else Unknown("no port was captured"),
        nccl_log=tuple(each for each in found if isinstance(each, (NcclProblem, NcclInit, NcclTransport))),
        dcgm=recorded.dcgm,
    )
