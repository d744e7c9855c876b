"""Whether a process runs in a container, of which kind, and the digest of its image."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rankmuster.collect.node.sys_files import read_text
from rankmuster.collect.proc import Proc
from rankmuster.model.fingerprint import NONE
from rankmuster.model.unknown import Unknown

DIGEST_VARIABLES = (
    *("RANKMUSTER_IMAGE_DIGEST", "IMAGE_DIGEST", "CONTAINER_IMAGE_DIGEST", "POD_IMAGE_DIGEST", "DOCKER_IMAGE_DIGEST"),
    *("CONTAINER_IMAGE", "IMAGE", "DOCKER_IMAGE", "SLURM_CONTAINER_IMAGE", "KUBERNETES_CONTAINER_IMAGE"),
)
"""Variables that people set to an image's digest, or to its name with one (`registry/name@sha256:...`). No runtime sets
one by itself: the kubelet knows it (`status.containerStatuses[].imageID`) and has no field for it in a pod's own
environment."""

_DIGEST = re.compile(r"(?:^|@)(sha256:[0-9a-f]{64})$")
_VARIABLES = (
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "apptainer"),
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("ENROOT_ROOTFS_NAME", "enroot"),
)
_CGROUPS = (
    (re.compile(r"kubepods"), "kubernetes"),
    (re.compile(r"/docker[/-]|docker-[0-9a-f]{12}"), "docker"),
    (re.compile(r"libpod"), "podman"),
    (re.compile(r"/lxc[./]"), "lxc"),
    (re.compile(r"cri-containerd|/containerd"), "containerd"),
)
_MOUNTS = (
    (re.compile(r"kubelet/pods"), "kubernetes"),
    (re.compile(r"lib/docker/"), "docker"),
    (re.compile(r"containers/storage"), "podman"),
    (re.compile(r"containerd"), "containerd"),
)
_FILES = ((".dockerenv", "docker"), ("run/.containerenv", "podman"))
_POD_HOSTS = re.compile(r"kubelet/pods/\S+ /etc/hosts ")
"""The kubelet mounts its own /etc/hosts into every container of a pod."""

_ROOT_MOUNT = re.compile(r"^\d+ \d+ \S+ \S+ / .*$", re.MULTILINE)


def container_of(proc: Path, root: Path, who: str, environ: Mapping[str, str]) -> str | Unknown:
    """docker, kubernetes, podman, apptainer, enroot, ... or NONE. `who`: "self" or a pid below `proc`.

    A pod on a container runtime is `kubernetes`. In a namespace of its own with no such sign it is not known.
    """
    kinds = [kind for name, kind in _VARIABLES if environ.get(name)]
    groups = read_text(proc / who / "cgroup") or ""
    kinds += [kind for pattern, kind in _CGROUPS if pattern.search(groups)]
    mounts = read_text(proc / who / "mountinfo", 1 << 20) or ""
    top = "\n".join(_ROOT_MOUNT.findall(mounts))
    kinds += [kind for pattern, kind in _MOUNTS if pattern.search(top)]
    if _POD_HOSTS.search(mounts):
        kinds.append("kubernetes")
    initial = Proc(proc).initial_pid_namespace()
    if not initial or " - overlay " in top:
        # A machine whose disk was made of an image has these files too.
        kinds += [kind for name, kind in _FILES if os.path.exists(root / name)]
    if environ.get("container"):
        kinds.append(str(environ["container"])[:32])
    if kinds:
        return "kubernetes" if "kubernetes" in kinds else kinds[0]
    if " - overlay " in top:
        return Unknown("the root file system is an overlay, as containers have it, and nothing says of which runtime")
    if initial:
        return NONE
    return Unknown("this is a pid namespace of its own, as containers have it, and nothing says of which runtime")


def image_digest(container: str | Unknown, given: str | None, environ: Mapping[str, str]) -> str | Unknown:
    """`given` (an option), else what a variable says, else NONE outside of containers."""
    if given is not None:
        match = _DIGEST.search(given.strip())
        if match is not None:
            return match.group(1)
        if given.strip().lower() == NONE:
            return NONE
        return Unknown(f"{given.strip()[:100]!r} was given as the image's digest and holds no sha256:<64 hex digits>")
    for name in DIGEST_VARIABLES:
        match = _DIGEST.search(environ.get(name, "").strip())
        if match is not None:
            return match.group(1)
    if container == NONE:
        return NONE
    told = container.reason if isinstance(container, Unknown) else f"this is a container ({container})"
    return Unknown(
        f"{told}, and no variable has its image's digest; set {DIGEST_VARIABLES[0]}=sha256:... in its environment (in "
        "Kubernetes: imageID of status.containerStatuses), or give it as an option"
    )
