"""What one container of a pod is started with: command, environment, and what is mounted where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kube_sim.objects import Object, name
from kube_sim.pod_files import Volumes, environment, expand
from kube_sim.pod_process import Start
from kube_sim.pod_status import ContainerState

if TYPE_CHECKING:
    from kube_sim.kubelet_process import ProcessKubelet


def start_of(
    pod: Object,
    one: ContainerState,
    kubelet: ProcessKubelet,
    volumes: Volumes,
    *,
    folder: Path,
    log: Path,
    namespace: tuple[str, bool],
    network: str,
) -> Start:
    """`folder`: of the pod on its node. `namespace`: for pids, and whether it is shared. Raises NotYet, OSError."""
    spec, its = one.spec, str(one.spec["name"])
    image = kubelet.image(str(spec.get("image", "")))
    hostname = pod["spec"].get("hostname") or name(pod)
    if pod["spec"].get("hostNetwork"):
        hostname = pod["spec"]["nodeName"]
    base = {"HOSTNAME": hostname, "HOME": "/root", **image.environment}
    variables = environment(pod, spec, base, kubelet.store)
    arguments = spec.get("args") or ([] if spec.get("command") else image.arguments)
    room = folder / "containers" / its / str(one.restarts)
    message = room / "termination"
    message.parent.mkdir(parents=True, exist_ok=True)
    message.touch()
    shm, host_file = folder / "shm", folder / "hostname"
    shm.mkdir(exist_ok=True)
    host_file.write_text(f"{hostname}\n")
    mounts = [
        {"at": "/dev/shm", "from": str(shm)},
        {"at": "/etc/hosts", "from": str(kubelet.hosts)},
        {"at": "/etc/hostname", "from": str(host_file)},
        {"at": spec.get("terminationMessagePath") or "/dev/termination-log", "from": str(message)},
        *volumes.mounts(spec, variables),
    ]
    last = {entry["at"].rstrip("/"): entry for entry in mounts}
    return Start(
        identity=one.identity,
        command=[expand(word, variables) for word in [*(spec.get("command") or image.entrypoint), *arguments]],
        environment=variables,
        folder=spec.get("workingDir") or "/",
        hostname=hostname,
        mounts=list(last.values()),
        image=kubelet.seen,
        log=log,
        room=room,
        namespace=namespace[0],
        network=network,
        shared=namespace[1],
        read_only=bool((spec.get("securityContext") or {}).get("readOnlyRootFilesystem")),
    )


def message_of(wish: Start) -> Path:
    """Where the container writes its termination message."""
    return wish.room / "termination"
