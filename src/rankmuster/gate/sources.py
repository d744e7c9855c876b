"""Gathers the facts of the checklist: files, the history, score cards. What cannot be had is said, not guessed."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.environment.check import check as check_environment
from rankmuster.environment.read_file import bytes_of
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import ASSUMED_TORCH, Version, parse_version
from rankmuster.evidence.bundle import load_all
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.evidence.folder import EvidenceError
from rankmuster.evidence.given_file import CannotRead, bytes_in
from rankmuster.gate.config import GateConfig
from rankmuster.gate.deployed import Workload
from rankmuster.gate.digests import NotThere, proof_of
from rankmuster.gate.facts import Drill, Facts, NodeInUse, Past, Recording, Runbook
from rankmuster.gate.past import past_of
from rankmuster.gate.recording import recording_of
from rankmuster.gate.runbooks import runbook_of
from rankmuster.gate.workload import workload_of
from rankmuster.incident.config_read import ConfigRefused
from rankmuster.incident.config_read import read as read_incident
from rankmuster.model.drill_card import CARD
from rankmuster.model.drill_card import MOST_BYTES as MOST_CARD
from rankmuster.model.drill_card import read as read_card
from rankmuster.model.release import Proof
from rankmuster.model.unknown import Unknown

MOST_FINGERPRINT = 16 << 20
MOST_SETTINGS = 1 << 20
"""Bytes of one file."""
MOST_NODES = 10_000


class SourceRefused(Exception):
    """A file that was named cannot be what it should be; the message says which, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """`folder`: where paths begin. `history`: of benchmarks, where the settings name none. `policy`: makes a runbook of
    a cluster's CommunicationPolicy, which this layer does not know; None where the file is not one."""

    config: GateConfig
    folder: Path
    history: str | None
    policy: Callable[[bytes, Workload, Proof], Runbook | Unknown | None]

    def facts(self, now: float) -> Facts:
        """All of them. Raises SourceRefused, environment.given.Unreadable, gate.workload.NotDeployable."""
        config, release = self.config, self.config.release
        workload = workload_of(bytes_of(self._path(release.workload)), str(release.workload), release.containers)
        torch = _version(release.torch, "release.torch")
        report = check_environment(
            [one.given for one in workload.deployed],
            torch,
            _version(release.nccl, "release.nccl"),
            _engine(release.engine),
        )
        nodes = self._nodes()
        return Facts(
            release=release.name,
            instance=config.instance or release.name,
            now=now,
            workload=workload,
            digest=release.digest,
            environment=report,
            recording=self._recording(torch or _torch_of(workload) or ASSUMED_TORCH),
            nodes=nodes,
            past=self._past(nodes),
            drills=self._drills(),
            runbook=self._runbook(workload),
            expected=config.expect,
            most_age_days=config.most_age_days,
        )

    def _path(self, path: Path) -> Path:
        return path if path.is_absolute() else self.folder / path

    def _recording(self, torch: Version) -> Recording | Unknown:
        paths = [self._path(one) for one in self.config.bundle]
        if not paths:
            return Unknown("no recording of the release is named (`bundle`)")
        try:
            evidence = load_all(paths)
            proof = proof_of(paths, ", ".join(str(one) for one in self.config.bundle[:3]))
        except (EvidenceError, NotThere) as error:
            return Unknown(f"the recording cannot be read: {error}")
        return recording_of(evidence, self.config.release.name, proof, torch)

    def _nodes(self) -> tuple[NodeInUse, ...] | Unknown:
        if not self.config.fingerprints:
            return Unknown("no fingerprint of a node in use is named (`fingerprints`)")
        files: list[Path] = []
        for pattern in self.config.fingerprints:
            found = sorted(glob.glob(str(self._path(Path(pattern)))))
            if not found:
                return Unknown(f"there is no file {pattern} (`fingerprints`)")
            files += [Path(one) for one in found]
        nodes: dict[str, NodeInUse] = {}
        for file in files[:MOST_NODES]:
            try:
                data = bytes_in(file, MOST_FINGERPRINT, "fingerprint")
                read = read_fingerprint(data)
            except (CannotRead, FingerprintRefused) as error:
                raise SourceRefused(f"{file}: {error}") from error
            one = NodeInUse(read, proof_of([file], self._shown(file)))
            before = nodes.get(one.name)
            if before is None or before.fingerprint.taken_at <= read.taken_at:
                nodes[one.name] = one
        return tuple(nodes.values())

    def _past(self, nodes: tuple[NodeInUse, ...] | Unknown) -> Past | Unknown:
        place = self.config.history or self.history
        if place is None:
            return Unknown("no history of benchmarks is named (`history`)")
        if "://" not in place:
            place = str(self._path(Path(place)))
        known = () if isinstance(nodes, Unknown) else nodes
        hashes = {one.fingerprint.class_hash for one in known if isinstance(one.fingerprint.class_hash, str)}
        return past_of(place, sorted(hashes))

    def _drills(self) -> tuple[Drill, ...] | Unknown:
        if not self.config.drills:
            return Unknown("no score card of a drill is named (`drills`)")
        found = []
        for given in self.config.drills:
            path = self._path(given)
            path = path / CARD if path.is_dir() else path
            try:
                card = read_card(bytes_in(path, MOST_CARD, "score card"))
            except CannotRead as error:
                return Unknown(str(error))
            except ValueError as error:
                raise SourceRefused(f"{path}: {error}") from error
            found.append(Drill(card, proof_of([path], self._shown(path))))
        return tuple(found)

    def _runbook(self, workload: Workload) -> Runbook | Unknown:
        if self.config.runbook is None:
            return Unknown("no settings of the runbook are named (`runbook`)")
        path = self._path(self.config.runbook)
        try:
            data = bytes_in(path, MOST_SETTINGS, "runbook's settings")
            proof = proof_of([path], str(self.config.runbook))
        except (CannotRead, NotThere) as error:
            return Unknown(str(error))
        policy = self.policy(data, workload, proof)
        if policy is not None:
            return policy
        try:
            settings = read_incident(data.decode("utf-8", "replace"), str(path))
        except ConfigRefused as error:
            raise SourceRefused(str(error)) from error
        return runbook_of(settings, self.config.instance or self.config.release.name, proof)

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def _version(text: str | None, where: str) -> Version | None:
    if text is None:
        return None
    try:
        return parse_version(text)
    except ValueError as error:
        raise SourceRefused(f"{where}: {error}") from error


def _engine(text: str | None) -> Engine | None:
    if text is None:
        return None
    try:
        return Engine(text)
    except ValueError:
        known = ", ".join(one.value for one in Engine)
        raise SourceRefused(f"release.engine: {json.dumps(text)} is none of {known}") from None


def _torch_of(workload: Workload) -> Version | None:
    versions: Sequence[Version] = [one.given.torch for one in workload.deployed if one.given.torch is not None]
    return versions[0] if versions else None
