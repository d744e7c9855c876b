"""Makes actuators of settings. One place where a kind of the settings becomes a class of `adapters`.

Only what is configured is imported: a node with HAProxy and a supervisor loads nothing of Slurm.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rankmuster.incident.actuators import Evidence, Group, Node, Probe, Retest, Traffic
from rankmuster.incident.config import (
    AdmitRetest,
    CollectEvidence,
    CommandGroup,
    DenyFile,
    GroupKind,
    HaproxyTraffic,
    HttpProbe,
    IncidentConfig,
    NodeKind,
    SglangTraffic,
    SlurmNode,
    SupervisorGroup,
    TrafficKind,
    VllmTraffic,
)
from rankmuster.incident.config_read import ConfigRefused, enabled_roles
from rankmuster.incident.places import folder_of, slurm_notes
from rankmuster.incident.tools import Tools


def tools_of(config: IncidentConfig, instance: str, environ: Mapping[str, str] | None = None) -> Tools:
    """All that acts for this instance. Raises ConfigRefused for what cannot be made; asks nobody."""
    if instance not in config.instances:
        there = ", ".join(sorted(config.instances)[:10]) or "none"
        raise ConfigRefused(f"no instance {instance!r} is configured; there is {there}")
    one = config.instances[instance]
    environ = os.environ if environ is None else environ
    try:
        return Tools(
            traffic=tuple(_traffic(kind, instance, f"{kind.kind}-{number}") for number, kind in enumerate(one.traffic)),
            group=None if one.group is None else _group(one.group, config, instance, environ),
            nodes=tuple(_node(kind, f"{kind.kind}-{number}") for number, kind in enumerate(one.node)),
            retest=None if one.retest is None else _retest(one.retest, one.nodes, folder_of(config, environ)),
            evidence=_evidence(one.evidence, one.metrics_url, one.group),
            probe=None if one.probe is None else _probe(one.probe),
            enabled=enabled_roles(config, instance),
        )
    except ValueError as error:
        raise ConfigRefused(f"instances.{instance}: {error}") from error


def _traffic(kind: TrafficKind, instance: str, name: str) -> Traffic:
    if isinstance(kind, HaproxyTraffic):
        from rankmuster.adapters.haproxy import Haproxy

        return Haproxy(name, kind.sockets, kind.backend, kind.server, kind.full_weight)
    if isinstance(kind, SglangTraffic):
        from rankmuster.adapters.sglang_router import sglang_router

        return sglang_router(name, kind.url, kind.worker, kind.header_file, kind.api, kind.add or None)
    if isinstance(kind, VllmTraffic):
        from rankmuster.adapters.vllm_router import vllm_router

        return vllm_router(name, kind.url, kind.worker, kind.header_file)
    from rankmuster.adapters.webhook_traffic import WebhookTraffic

    return WebhookTraffic(name, kind.url, kind.look_url, kind.header_file, instance=instance)


def _group(kind: GroupKind, config: IncidentConfig, instance: str, environ: Mapping[str, str]) -> Group:
    if isinstance(kind, SupervisorGroup):
        from rankmuster.adapters.supervisor import Supervisor
        from rankmuster.adapters.supervisor_wire import default_run_folder, socket_path

        return Supervisor("supervisor", kind.socket or socket_path(default_run_folder(environ), instance))
    if isinstance(kind, CommandGroup):
        from rankmuster.adapters.command_group import CommandGroup as Commands

        return Commands(instance, kind.terminate, kind.start, kind.look, elsewhere=kind.elsewhere)
    from rankmuster.adapters.slurm_requeue import SlurmRequeue

    return SlurmRequeue(kind.job, scontrol=kind.scontrol, notes=slurm_notes(config, instance, environ))


def _node(kind: NodeKind, name: str) -> Node:
    if isinstance(kind, SlurmNode):
        from rankmuster.adapters.slurm_drain import SlurmDrain

        return SlurmDrain(name=name, scontrol=kind.scontrol)
    if isinstance(kind, DenyFile):
        from rankmuster.adapters.deny_file import DenyFile as File

        return File(kind.path, name=name)
    from rankmuster.adapters.webhook_node import WebhookNode

    return WebhookNode(name, kind.url, look_url=kind.look_url, header_file=kind.header_file)


def _retest(kind: AdmitRetest, nodes: Mapping[str, str], folder: Path) -> Retest:
    from rankmuster.adapters.admit_retest import AdmitRetest as Admit

    return Admit(
        folder / "retests",
        reach=kind.reach,
        pairs=kind.pairs,
        profile=kind.profile,
        short_profile=kind.short_profile,
        history=kind.history,
        options=kind.options,
        aliases=nodes,
    )


def _evidence(kind: CollectEvidence, metrics_url: str | None, group: GroupKind | None) -> Evidence:
    from rankmuster.adapters.collect_evidence import CollectEvidence as Collect

    address = () if metrics_url is None else ("--metrics-url", metrics_url)
    # of a group that has ended, its supervisor's record beside the socket says who belonged to it and what they left
    socket = group.socket if isinstance(group, SupervisorGroup) else None
    folder = () if socket is None else ("--run-folder", str(socket.parent))
    return Collect(reach=kind.reach, hosts=kind.hosts, options=(*address, *folder, *kind.options))


def _probe(kind: HttpProbe) -> Probe:
    from rankmuster.adapters.probe_http import HttpProbe as AskedHttp

    return AskedHttp("probe", kind.url, kind.body, kind.expect, kind.header_file, kind.seconds)
