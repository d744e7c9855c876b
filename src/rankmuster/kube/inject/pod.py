"""One pod template with the sidecar, the volumes and the environment in it. Pure; changes the template in place."""

from __future__ import annotations

from typing import Any

from rankmuster.kube.inject import engine_environment, incident_profile
from rankmuster.kube.inject.containers import engines
from rankmuster.kube.inject.incident_profile import Steady
from rankmuster.kube.inject.settings import InjectSettings
from rankmuster.kube.inject.templates import NotInjectable, Template
from rankmuster.model.kube import (
    AGENT_PORT,
    EVIDENCE_FOLDER,
    GATE,
    INJECTED,
    METRICS_PORT,
    SIDECAR,
    SIDECAR_PORT,
    TOKEN_FILE,
)

EVIDENCE_VOLUME, WORK_VOLUME, TOKEN_VOLUME, INFO_VOLUME = (
    f"{SIDECAR}-evidence",
    f"{SIDECAR}-work",
    f"{SIDECAR}-token",
    f"{SIDECAR}-podinfo",
)
WORK_FOLDER = "/rankmuster/work"
INFO_FOLDER = "/etc/podinfo"
WORK_SIZE = "4Gi"

PORT_NAME, METRICS_PORT_NAME = "rankmuster", "rankmuster-met"
"""At most 15 letters."""

GRACE_MARGIN = 5
"""Seconds of the pod's grace period that are left when the sidecar has to be done."""
DEFAULT_GRACE = 30
LEAST_GRACE = 20
"""Seconds for what an ended engine left to be taken and handed over."""


def inject(
    template: Template, settings: InjectSettings, steady: Steady | None, *, others_have_gpus: bool
) -> list[str] | None:
    """Notes on what to know; `steady`: with the profile in a ConfigMap. None where the template is no engine's and
    stays as it is. Raises NotInjectable."""
    spec, where = template.spec, template.where
    chosen = engines(template, settings.containers, others_have_gpus=others_have_gpus)
    if not chosen:
        return None
    notes: list[str] = []
    _refuse(template)
    _refuse_ports(template, {SIDECAR_PORT, METRICS_PORT} if settings.metrics else {SIDECAR_PORT})
    spec["shareProcessNamespace"] = True
    _volumes(spec, settings, where)
    for container in chosen:
        _mount(container, EVIDENCE_VOLUME, EVIDENCE_FOLDER, where)
        _mount(container, INFO_VOLUME, INFO_FOLDER, where, read_only=True)
        name = container.get("name") or "the model's container"
        kept = engine_environment.add(
            container,
            engine_environment.wanted(settings, template, elsewhere=steady.data if steady is not None else ()),
            f"{where}, container {name}",
        )
        if kept:
            notes.append(f"{where}, {name}: set already, and kept as it is: {', '.join(kept)}")
        notes += incident_profile.refer(container, template, steady, f"{where}, container {name}")
    notes += _sidecar(template, settings, chosen)
    notes += _marks(template, settings)
    incident_profile.mark(template, steady)
    return notes


def _refuse(template: Template) -> None:
    spec, where = template.spec, template.where
    if spec.get("hostPID"):
        raise NotInjectable(f"{where}: hostPID and a shared process namespace exclude one another; take hostPID away")
    if spec.get("shareProcessNamespace") is False:
        raise NotInjectable(
            f"{where}: shareProcessNamespace is false, and the sidecar would see no process of the engine: take it away"
        )
    if (spec.get("os") or {}).get("name") == "windows":
        raise NotInjectable(f"{where}: these are pods of Windows")
    for field in ("containers", "ephemeralContainers"):
        for one in spec.get(field) or ():
            if isinstance(one, dict) and one.get("name") == SIDECAR:
                raise NotInjectable(f"{where}: a container of its own is called {SIDECAR}: rename it")


def _refuse_ports(template: Template, ours: set[int]) -> None:
    """All containers of a pod share its ports: who comes first has one, and the controller shows its token there."""
    held = [one for field in ("containers", "initContainers") for one in _objects(template.spec.get(field))]
    for one in held:
        if one.get("name") == SIDECAR:
            continue
        for port in _objects(one.get("ports")):
            taken = port.get("containerPort")
            if isinstance(taken, int) and taken in ours and port.get("protocol", "TCP") == "TCP":
                way = ", or give --no-metrics" if taken == METRICS_PORT else ""
                raise NotInjectable(
                    f"{template.where}: container {one.get('name')} has port {taken}, which is the sidecar's: take "
                    f"another one{way}"
                )


def _objects(there: Any) -> list[dict[str, Any]]:
    return [one for one in there if isinstance(one, dict)] if isinstance(there, list) else []


def _volumes(spec: dict[str, Any], settings: InjectSettings, where: str) -> None:
    ours: dict[str, dict[str, Any]] = {
        EVIDENCE_VOLUME: {"emptyDir": {"sizeLimit": settings.evidence_size}},
        WORK_VOLUME: {"emptyDir": {"sizeLimit": WORK_SIZE}},
        # optional: a pod must not wait for a Secret of ours
        TOKEN_VOLUME: {"secret": {"secretName": settings.secret, "optional": True, "defaultMode": 0o444}},
        INFO_VOLUME: {
            "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
    }
    _replace(spec, "volumes", [{"name": name, **source} for name, source in ours.items()], where)


def _replace(holder: dict[str, Any], field: str, entries: list[dict[str, Any]], where: str) -> None:
    """Puts entries into a list by their names: one that is there is replaced where it stands."""
    there = holder.get(field)
    if there is None:
        there = holder[field] = []
    if not isinstance(there, list) or not all(isinstance(one, dict) for one in there):
        raise NotInjectable(f"{where}: {field} is no list of objects")
    for entry in entries:
        index = next((at for at, one in enumerate(there) if one.get("name") == entry["name"]), None)
        if index is None:
            there.append(entry)
        else:
            there[index] = entry


def _mount(container: dict[str, Any], volume: str, path: str, where: str, *, read_only: bool = False) -> None:
    mounts = container.get("volumeMounts")
    if mounts is None:
        mounts = container["volumeMounts"] = []
    if not isinstance(mounts, list) or not all(isinstance(one, dict) for one in mounts):
        raise NotInjectable(f"{where}: volumeMounts is no list of objects")
    same = next((one for one in mounts if str(one.get("mountPath", "")).rstrip("/") == path), None)
    if same is not None:
        if same.get("name") != volume and path != INFO_FOLDER:  # a podinfo of one's own says the same
            raise NotInjectable(f"{where}: {path} is mounted already, from volume {same.get('name')}")
        return
    mounts.append({"name": volume, "mountPath": path, **({"readOnly": True} if read_only else {})})


def _sidecar(template: Template, settings: InjectSettings, chosen: list[dict[str, Any]]) -> list[str]:
    spec, where = template.spec, template.where
    notes: list[str] = []
    inits = spec.get("initContainers")
    if inits is not None and not (isinstance(inits, list) and all(isinstance(one, dict) for one in inits)):
        raise NotInjectable(f"{where}: initContainers is no list of objects")
    there = next((one for one in inits or () if one.get("name") == SIDECAR), None)
    if there is not None and "sidecar" not in (there.get("args") or []):
        raise NotInjectable(f"{where}: an init container of its own is called {SIDECAR}: rename it")
    grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    grace = grace if isinstance(grace, int) and not isinstance(grace, bool) and grace >= 0 else DEFAULT_GRACE
    if grace < LEAST_GRACE:
        notes.append(
            f"{where}: terminationGracePeriodSeconds is {grace}: what the engine leaves at its end takes up to "
            f"{LEAST_GRACE} s to be saved"
        )
    args = ["kube", "sidecar", "--listen", f"*:{SIDECAR_PORT}", "--token-file", TOKEN_FILE]
    args += ["--folder", EVIDENCE_FOLDER, "--work", WORK_FOLDER, "--instance", template.instance]
    args += ["--grace", str(max(grace - GRACE_MARGIN, 2))]
    if settings.agent:
        args += ["--agent", f"http://$(HOST_IP):{AGENT_PORT}"]
    if settings.metrics_url:
        args += ["--metrics-url", settings.metrics_url.replace("$(", "$$(")]
    ports = [{"name": PORT_NAME, "containerPort": SIDECAR_PORT}]
    if settings.metrics:
        args += ["--metrics-listen", f"*:{METRICS_PORT}"]
        ports.append({"name": METRICS_PORT_NAME, "containerPort": METRICS_PORT})
    context, more = _security(template, settings, chosen)
    notes += more
    container = {
        "name": SIDECAR,
        "image": settings.image
        if ":" in settings.image.rpartition("/")[2] or "@" in settings.image
        else f"{settings.image}:{settings.version}",
        "args": args,
        # goes on beside the engine, and ends after it
        "restartPolicy": "Always",
        "env": [
            *engine_environment.downward(template),
            {"name": "HOME", "value": WORK_FOLDER},
            {"name": "TMPDIR", "value": WORK_FOLDER},
            # base images of others may ask for every GPU of the node
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        ],
        "ports": ports,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "1Gi"},
            "limits": {"memory": "2Gi"},
        },
        "securityContext": context,
        "volumeMounts": [
            {"name": EVIDENCE_VOLUME, "mountPath": EVIDENCE_FOLDER},
            {"name": WORK_VOLUME, "mountPath": WORK_FOLDER},
            {"name": TOKEN_VOLUME, "mountPath": TOKEN_FILE.rpartition("/")[0], "readOnly": True},
            {"name": INFO_VOLUME, "mountPath": INFO_FOLDER, "readOnly": True},
        ],
    }
    if there is None and inits is not None:
        # first: what it sees then is everything; others may take long, or never end
        inits.insert(0, container)
    else:
        _replace(spec, "initContainers", [container], where)
    return notes


def _security(
    template: Template, settings: InjectSettings, chosen: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """As the engine's user: files and memory maps of another one's processes are closed. As root with SYS_PTRACE, since
    an engine's root has capabilities that a bare root has not."""
    pod = template.spec.get("securityContext")
    pod = pod if isinstance(pod, dict) else {}
    own = chosen[0].get("securityContext")
    own = own if isinstance(own, dict) else {}
    user = settings.run_as if settings.run_as is not None else own.get("runAsUser", pod.get("runAsUser"))
    bare: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    notes: list[str] = []
    if user is None and own.get("runAsNonRoot", pod.get("runAsNonRoot")):
        notes.append(
            f"{template.where}: the engine runs as a user of its image's that is not written here: the sidecar sees "
            "its "
            "processes only as the same one; give --run-as-user"
        )
        return bare, notes
    user = 0 if user is None else user
    group = own.get("runAsGroup", pod.get("runAsGroup"))
    bare["runAsUser"] = user
    if group is not None:
        bare["runAsGroup"] = group
    if user != 0:
        bare["runAsNonRoot"] = True
        return bare, notes
    bare["runAsNonRoot"] = False
    if settings.ptrace:
        bare["capabilities"]["add"] = ["SYS_PTRACE"]
    else:
        del bare["capabilities"]
    return bare, notes


def _marks(template: Template, settings: InjectSettings) -> list[str]:
    notes: list[str] = []
    if template.metadata is not None:
        annotations = template.metadata.get("annotations")
        if not isinstance(annotations, dict):
            annotations = template.metadata["annotations"] = {}
        annotations[INJECTED] = settings.version
    if settings.gate:
        gates = template.spec.get("readinessGates")
        if not isinstance(gates, list):
            gates = template.spec["readinessGates"] = []
        if not any(isinstance(one, dict) and one.get("conditionType") == GATE for one in gates):
            gates.append({"conditionType": GATE})
        notes.append(
            f"{template.where}: with the readiness gate {GATE} no pod becomes ready before the controller has said so: "
            "only where the controller runs, and acts on traffic"
        )
    if template.spec.get("hostNetwork"):
        notes.append(
            f"{template.where}: with hostNetwork the sidecar's port {SIDECAR_PORT} is the node's: two such pods on one "
            "node have one between them"
        )
    return notes
