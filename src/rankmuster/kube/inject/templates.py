"""Where a manifest has pod templates, by its kind, and what its pods' instance is called. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rankmuster.model.kube import Grouping, WorkloadKind

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"

NAMESPACE, POD = "$(POD_NAMESPACE)", "$(POD_NAME)"


class NotInjectable(Exception):
    """The manifest is left as it is; the message says where it is in the way, and what to do."""


@dataclass(frozen=True, slots=True)
class Template:
    """One pod template. `metadata`: of its pods, None where the kind has no place for it. `spec`: the pod's own,
    changed in place. `main`: a container outside `spec.containers` (KServe's model). `where`: for messages.
    `instance`: with references to variables (`$(NAME)`); `labels`: variable -> label that it is taken from.
    `workload`: as the controller calls what makes its pods; empty: its name is not written, None: the controller knows
    no such kind, or nobody can tell what it will be called. `namespace`: None where none is written."""

    where: str
    spec: dict[str, Any]
    metadata: dict[str, Any] | None
    instance: str
    labels: tuple[tuple[str, str], ...] = ()
    main: dict[str, Any] | None = None
    deployment: bool = False
    restarts_count: bool = False
    workload: str | None = None
    namespace: str | None = None


def templates(document: Any, grouping: Grouping) -> list[Template]:
    """All of one document; none for kinds that make no pods. Raises NotInjectable for one that is malformed."""
    if not isinstance(document, dict):
        return []
    kind = document.get("kind")
    if kind == "List":
        return [one for item in document.get("items") or () for one in templates(item, grouping)]
    reader = _READERS.get(str(kind))
    if reader is None:
        return []
    found: list[Template] = list(reader(document, grouping))
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    space = metadata.get("namespace") or None
    if kind in _OF_CONTROLLER:
        return [replace(one, namespace=space, workload=metadata.get("name") or "") for one in found]
    return [replace(one, namespace=space) for one in found]


def of(document: Any) -> str:
    """Kind and name, for messages."""
    if not isinstance(document, dict):
        return "a document that is no object"
    metadata = document.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    return f"{document.get('kind') or 'an object without kind'} {name or 'without a name'}"


def _name(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise NotInjectable(f"{of(document)}: without metadata.name nobody can say what its instance is called")
    return name


def _at(document: dict[str, Any], *path: str | int, optional: bool = False) -> Any:
    """The object there. Raises NotInjectable."""
    value: Any = document
    for index, key in enumerate(path):
        value = value.get(key) if isinstance(value, dict) else None
        if value is None and optional:
            return None
        if value is None:
            raise NotInjectable(f"{of(document)}: there is no {'.'.join(map(str, path[: index + 1]))}")
    return value


def _template(
    document: dict[str, Any], path: tuple[str, ...], instance: str, *, holder: dict[str, Any] | None = None, **more: Any
) -> Template:
    """A PodTemplateSpec below `path`."""
    found = _at(holder if holder is not None else document, *path)
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        raise NotInjectable(f"{of(document)}: {'.'.join(path)} has no spec")
    if not isinstance(found.get("metadata"), dict):
        found["metadata"] = {}
    return Template(f"{of(document)}, {'.'.join(path)}", found["spec"], found["metadata"], instance, **more)


def _grouped(document: dict[str, Any], grouping: Grouping, usual: Grouping) -> str:
    chosen = usual if grouping is Grouping.AUTO else grouping
    whole = f"{NAMESPACE}.{_name(document)}"
    return f"{whole}.{POD}" if chosen is Grouping.POD else whole


def _lws(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:
    instance, labels = _of_lws(grouping)
    base = ("spec", "leaderWorkerTemplate")
    if _at(document, *base, "leaderTemplate", optional=True) is not None:
        yield _template(document, (*base, "leaderTemplate"), instance, labels=labels, restarts_count=True)
    yield _template(document, (*base, "workerTemplate"), instance, labels=labels, restarts_count=True)


def _of_lws(grouping: Grouping) -> tuple[str, tuple[tuple[str, str], ...]]:
    labels = (("RANKMUSTER_WORKLOAD", LWS_NAME), ("RANKMUSTER_GROUP", LWS_GROUP))
    whole = f"{NAMESPACE}.$(RANKMUSTER_WORKLOAD)"
    if grouping is Grouping.POD:
        return f"{whole}.{POD}", labels[:1]
    if grouping is Grouping.WORKLOAD:
        return whole, labels[:1]
    return f"{whole}.$(RANKMUSTER_GROUP)", labels


def _job_set(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:
    instance = _grouped(document, grouping, Grouping.WORKLOAD)
    jobs = _at(document, "spec", "replicatedJobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if not isinstance(job, dict):
            raise NotInjectable(f"{of(document)}: spec.replicatedJobs[{index}] is no object")
        made = _template(document, ("template", "spec", "template"), instance, holder=job)
        yield Template(f"{of(document)}, replicated job {job.get('name') or index}", made.spec, made.metadata, instance)


def _workload(usual: Grouping, *, deployment: bool = False) -> Any:
    def read(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:
        instance = _grouped(document, grouping, usual)
        yield _template(document, ("spec", "template"), instance, deployment=deployment)

    return read


def _cron_job(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:  # noqa: ARG001 - a run is a job
    yield _template(document, ("spec", "jobTemplate", "spec", "template"), f"{NAMESPACE}.{_name(document)}.{POD}")


def _pod(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:  # noqa: ARG001 - one pod is one
    spec = _at(document, "spec")
    if not isinstance(spec, dict):
        raise NotInjectable(f"{of(document)}: its spec is no object")
    metadata = document.setdefault("metadata", {})
    yield Template(of(document), spec, metadata, f"{NAMESPACE}.{POD}")


_FRAMEWORKS = ("model", "huggingface", "triton", "pytorch", "tensorflow", "onnx")


def _inference_service(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:
    """KServe's predictor: a pod's spec, with the model's server apart (`model`), run by a Deployment of our name's."""
    predictor = _at(document, "spec", "predictor")
    if not isinstance(predictor, dict):
        raise NotInjectable(f"{of(document)}: spec.predictor is no object")
    if isinstance(predictor.get("workerSpec"), dict):
        raise NotInjectable(
            f"{of(document)}: spec.predictor.workerSpec makes two Deployments that nothing ties together; use an "
            "LLMInferenceService or a LeaderWorkerSet for an instance of several nodes"
        )
    main = next((predictor[key] for key in _FRAMEWORKS if isinstance(predictor.get(key), dict)), None)
    chosen = Grouping.POD if grouping is Grouping.AUTO else grouping
    whole = f"{NAMESPACE}.{_name(document)}-predictor"
    instance = f"{whole}.{POD}" if chosen is Grouping.POD else whole
    for field in ("annotations", "labels"):
        if predictor.get(field) is None:
            predictor.pop(field, None)
    yield Template(
        f"{of(document)}, spec.predictor",
        predictor,
        predictor,
        instance,
        main=main,
        deployment=True,
        workload=f"{_name(document)}-predictor",
    )


def _llm_inference_service(document: dict[str, Any], grouping: Grouping) -> Iterator[Template]:
    """KServe's LLMInferenceService: with a worker a LeaderWorkerSet is made of it, without one a Deployment."""
    name = _name(document)
    for path, suffix in ((("spec",), ""), (("spec", "prefill"), "-prefill")):
        part = _at(document, *path, optional=True)
        if not isinstance(part, dict):
            continue
        group = isinstance(part.get("worker"), dict)
        for field in ("template", "worker"):
            spec = part.get(field)
            if not isinstance(spec, dict):
                continue
            where = f"{of(document)}, {'.'.join((*path, field))}"
            if group:
                instance, labels = _of_lws(grouping)
                workload = _uncut(f"{name}-kserve-mn{suffix}")
                yield Template(where, spec, None, instance, labels, restarts_count=True, workload=workload)
            else:
                whole = f"{NAMESPACE}.{name}-kserve{suffix}"
                pod = grouping is not Grouping.WORKLOAD
                instance = f"{whole}.{POD}" if pod else whole
                yield Template(where, spec, None, instance, deployment=True, workload=_uncut(f"{name}-kserve{suffix}"))


def _uncut(name: str) -> str | None:
    """None where KServe may cut it and end it in a sum, as it does to stay below 63 with what pods add."""
    return name if len(name) <= _UNCUT else None


_UNCUT = 45
_OF_CONTROLLER = frozenset(kind.value for kind in WorkloadKind)
_READERS: dict[str, Any] = {
    "LeaderWorkerSet": _lws,
    "JobSet": _job_set,
    "StatefulSet": _workload(Grouping.WORKLOAD),
    "Deployment": _workload(Grouping.POD, deployment=True),
    "ReplicaSet": _workload(Grouping.POD, deployment=True),
    "Job": _workload(Grouping.WORKLOAD),
    "CronJob": _cron_job,
    "Pod": _pod,
    "InferenceService": _inference_service,
    "LLMInferenceService": _llm_inference_service,
}
KINDS = tuple(_READERS)
