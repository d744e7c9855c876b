"""What has to be the same before two measurements of an instance are compared."""

from __future__ import annotations

from collections import Counter

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.slow.keys import layout, role
from rankmuster.model.job import Group
from rankmuster.model.slow import Surroundings
from rankmuster.model.topology import GpuFacts

_MOST_LAYOUTS = 64


def hosts_of(context: Context, group: Group) -> int | None:
    """How many hosts hold the group's members; None where one's is unknown."""
    hosts = {context.job.rank(rank).host for rank in group.members}
    return None if None in hosts else len(hosts)


def describe(context: Context) -> Surroundings:
    """What the evidence says of the instance's make-up."""
    dumps = context.job.dumps.values()
    libraries = sorted({dump.comm_lib_version for dump in dumps if dump.comm_lib_version})
    recorders = sorted({dump.version for dump in dumps})
    counted = Counter((role(group), layout(group)) for group in context.table.groups)
    layouts = sorted(
        f"{kind}: {number} group{'' if number == 1 else 's'} of {place}" for (kind, place), number in counted.items()
    )
    gpus = Counter(fact.name for fact in _gpus(context) if fact.name)
    return Surroundings(
        instance=context.facts.instance if context.facts is not None else None,
        world_size=context.job.world_size,
        comm_library=" and ".join(libraries),
        recorder=" and ".join(f"{major}.{minor}" for major, minor in recorders),
        gpus=", ".join(f"{number} x {name}" for name, number in sorted(gpus.items())),
        hosts=len({rank.host for rank in context.job.ranks if rank.host is not None}),
        layouts=tuple(layouts[:_MOST_LAYOUTS]),
    )


def _gpus(context: Context) -> list[GpuFacts]:
    """One description per GPU: several tools tell of the same ones."""
    found: dict[object, GpuFacts] = {}
    for fact in context.evidence.of(GpuFacts):
        found.setdefault(fact.uuid or (fact.host, fact.bus_id, fact.index), fact)
    return list(found.values())
