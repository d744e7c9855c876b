"""`rankmuster collect --pod`: evidence from pods of a cluster that this machine only knows by its kubeconfig."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError
from rankmuster.collect.wishes import LOG_BYTES, LOOK_SECONDS, AddressMode, DumpWish, Part, RasRisk

if TYPE_CHECKING:
    from rankmuster.adapters.collect_here import Taken
    from rankmuster.adapters.kube.api import Api
    from rankmuster.adapters.kube.exec_collect import ExecWish
    from rankmuster.collect.deadline import Deadline

DEADLINE_SECONDS = 60.0
"""Total, by default: the API server and its streams come on top of a collection, and so does starting a container."""

MOST_PODS = 256
"""Of one call: more than any one instance has."""

MERGE_SHARE, MERGE_SECONDS = 0.2, 10.0
"""Of the time, kept for one bundle of all."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PodsAsked:
    """`pods`: names, also as `pod/NAME` and `NAMESPACE/NAME`. `namespace` None: the context's own."""

    pods: tuple[str, ...]
    namespace: str | None
    container: str | None
    context: str | None
    image: str | None
    ephemeral: bool
    by_exec: bool
    output: Path
    seconds: float
    stopped: bool
    instance: str | None
    as_instance: str | None
    as_incarnation: str | None
    ras_risk: RasRisk
    addresses: AddressMode
    look_seconds: float
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodsSaved:
    """`paths`: the bundle; several where they could not be merged. `of_instance`: whether there are ranks in it."""

    paths: tuple[Path, ...]
    of_instance: bool


def collect_pods(asked: PodsAsked) -> PodsSaved:
    """Takes all pods at once, and makes one bundle of them. Raises CommandError."""
    from rankmuster.adapters.kube.api import KubeError
    from rankmuster.adapters.kube.at_once import at_once
    from rankmuster.adapters.kube.client import connect
    from rankmuster.collect.deadline import Deadline
    from rankmuster.report.inert import plain

    if asked.ephemeral and asked.by_exec:
        raise CommandError("--ephemeral and --exec exclude each other: name one of them")
    if asked.ephemeral and not asked.image:
        raise CommandError(
            "--ephemeral needs the image that the container is to run: --image registry.example/rankmuster"
        )
    if asked.image and not asked.ephemeral:
        raise CommandError("--image is of an ephemeral container: say --ephemeral as well")
    if len(asked.pods) > MOST_PODS:
        raise CommandError(f"{len(asked.pods)} pods are more than the {MOST_PODS} that one call takes")
    if os.path.lexists(asked.output):
        raise CommandError(f"{asked.output} exists; a bundle is never written over anything: name another output")
    deadline = Deadline.after(asked.seconds)
    names = [_named(one, asked.namespace or _namespace(asked.context)) for one in dict.fromkeys(asked.pods)]
    with _work_folder(asked.output) as folder:
        try:
            client = connect(None, asked.context, deadline=deadline.within(asked.seconds / 2))
        except KubeError as error:
            raise CommandError(str(error)) from error
        with contextlib.closing(client):
            gather = deadline.before(min(MERGE_SECONDS, asked.seconds * MERGE_SHARE))
            wish = _wish(asked)
            tasks = [partial(_one, client, *name, wish, folder, gather) for name in names]
            found = at_once(tasks, gather)
        bundles = []
        for (namespace, name), taken in zip(names, found, strict=True):
            if taken is None:
                say(f"rankmuster: pod {namespace}/{name} had not answered in time")
                continue
            if taken.note:
                say(f"rankmuster: {plain(taken.note, limit=1200)}")
            if taken.bundle is not None:
                bundles.append(taken.bundle)
                say(f"rankmuster: evidence of pod {namespace}/{name} is here")
        return _merged(bundles, asked.output)


def options_there(
    *, dumps: DumpWish, look: float, log_megabytes: int, part: Part, stacks: bool, page: str | None
) -> tuple[str, ...]:
    """Options for rankmuster in a pod: those alone that differ from what it does anyway, since it may be older."""
    given = (
        ("--dumps", dumps.value, dumps is not DumpWish.WHEN_NOT_HEALTHY),
        ("--look", str(look), look != LOOK_SECONDS),
        ("--log-megabytes", str(log_megabytes), log_megabytes != LOG_BYTES >> 20),
        ("--part", part.value, part is not Part.ALL),
        ("--metrics-url", page or "", page is not None),
    )
    found = [word for option, value, differs in given if differs for word in (option, value)]
    return (*found, *(() if stacks else ("--no-stacks",)))


def refuse_here(**given: object) -> None:
    """Raises CommandError for options that mean this machine."""
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if wrong:
        raise CommandError(f"{', '.join(wrong)} means this machine, and --pod another one: leave it out")


def _one(api: Api, namespace: str, name: str, wish: ExecWish, folder: Path, deadline: Deadline) -> Taken:
    from rankmuster.adapters.collect_here import Taken
    from rankmuster.adapters.kube.api import PODS, KubeError
    from rankmuster.adapters.kube.exec_collect import take_pod
    from rankmuster.adapters.kube.pod_exec import denied
    from rankmuster.adapters.kube.pods import pod_view

    try:
        pod = pod_view(api.get(PODS, name, namespace, deadline))
    except KubeError as error:
        return Taken(None, f"pod {namespace}/{name}: {denied(error, 'get pods')}", error.late)
    except ValueError as error:
        return Taken(None, f"pod {namespace}/{name}: the API server describes no pod ({error})")
    return take_pod(api, pod, wish, folder / f"{namespace}.{name}.tar.zst", deadline)


def _wish(asked: PodsAsked) -> ExecWish:
    from rankmuster.adapters.kube.exec_collect import ExecWish, How

    how = How.EPHEMERAL if asked.ephemeral else How.EXEC if asked.by_exec else How.AUTO
    return ExecWish(
        stopped=asked.stopped,
        ras_risk=asked.ras_risk,
        instance=asked.instance,
        as_instance=asked.as_instance,
        as_incarnation=asked.as_incarnation,
        addresses=asked.addresses,
        look_seconds=asked.look_seconds,
        container=asked.container,
        how=how,
        image=asked.image,
        options=asked.options,
    )


def _merged(bundles: Sequence[Path], output: Path) -> PodsSaved:
    """One bundle of those that are sound; the others are kept beside it and named."""
    from rankmuster.collect.bundle.contents import BundleUnreadable
    from rankmuster.collect.bundle.merge import MergeRefused, merge
    from rankmuster.collect.bundle.verify import verify
    from rankmuster.collect.bundle.write import NotWritten, OutputRefused

    sound = []
    for one in bundles:
        try:
            wrong = verify(one).findings
            why = wrong[0].message if wrong else ""
        except BundleUnreadable as error:
            why = str(error)
        if not why:
            sound.append(one)
            continue
        kept = _kept(one, output)
        say(f"rankmuster: {one.name} does not verify ({why}); it is in {kept}")
    if not sound:
        return PodsSaved((), False)
    try:
        merged = merge(sound, output)
    except (MergeRefused, BundleUnreadable, OutputRefused, NotWritten) as error:
        paths = tuple(_kept(one, output) for one in sound)
        say(f"rankmuster: {len(paths)} bundle(s) were not merged: {error}")
        return PodsSaved(paths, True)
    for note in merged.notes[:20]:
        say(f"rankmuster: {note}")
    manifest = verify(merged.sealed.path).manifest
    told = manifest.document.get("instance") if manifest is not None else None
    return PodsSaved((merged.sealed.path,), isinstance(told, dict) and told.get("name") is not None)


def _kept(bundle: Path, output: Path) -> Path:
    """Beside the output, under a name that is free."""
    stem = output.name.removesuffix(".tar.zst")
    place = output.with_name(f"{stem}.{bundle.name}")
    if os.path.lexists(place):
        place = output.with_name(f"{stem}.{uuid.uuid4().hex[:8]}.{bundle.name}")
    os.rename(bundle, place)
    return place


@contextmanager
def _work_folder(output: Path) -> Iterator[Path]:
    """Beside the output: on the same disk, and gone afterwards."""
    folder = output.absolute().with_name(f".{output.name[:100]}.{uuid.uuid4().hex[:8]}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CommandError(f"cannot write to {folder.parent}: {error.strerror}; name another --output") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _named(given: str, namespace: str) -> tuple[str, str]:
    """(namespace, name)."""
    head, slash, tail = given.partition("/")
    if slash and head not in ("pod", "pods"):
        namespace = head
    name = tail if slash else head
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(namespace):
        raise CommandError(f"--pod {given[:100]!r} names no pod; wanted is NAME, pod/NAME or NAMESPACE/NAME")
    return namespace, name


def _namespace(context: str | None) -> str:
    """The context's own, as kubectl takes it."""
    try:
        import kubernetes.config  # type: ignore[import-untyped]

        contexts, active = kubernetes.config.list_kube_config_contexts()
        chosen = active if context is None else next((one for one in contexts if one.get("name") == context), None)
        found = (chosen or {}).get("context", {}).get("namespace")
    except Exception:  # no kubeconfig at all: connecting says so in its own words
        found = None
    return found if isinstance(found, str) and found else "default"
