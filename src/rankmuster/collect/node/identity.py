"""Whose the instance is: pod identity from the downward API, and the Slurm job. By allow-list, never everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import find_program, run
from rankmuster.collect.strip.secrets import scrub_words

POD_VARIABLES = ("POD_NAME", "POD_UID", "POD_NAMESPACE", "NODE_NAME", "HOSTNAME", "CONTAINER_NAME")
GROUP_VARIABLES = (
    *("LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "JOB_COMPLETION_INDEX", "JOBSET_NAME"),
    *("RAY_CLUSTER_NAME", "KUBERNETES_SERVICE_NAME"),
)
SLURM_VARIABLES = (
    *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES"),
    *("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_GTIDS"),
    *("SLURM_RESTART_COUNT", "SLURMD_NODENAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CLUSTER_NAME"),
)
_OF_THE_RANK = frozenset({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_ID"})

LABELS = re.compile(
    r"(?:leaderworkerset\.(?:sigs\.k8s\.io|x-k8s\.io)|disaggregatedset\.x-k8s\.io|jobset\.sigs\.k8s\.io|"
    r"batch\.kubernetes\.io|apps\.kubernetes\.io|statefulset\.kubernetes\.io|app\.kubernetes\.io|ray\.io|"
    r"kueue\.x-k8s\.io|llm-d\.ai|nvidia\.com)/[\w.\-]{1,63}|app|component|pod-template-hash|controller-revision-hash"
)
"""Labels and annotations that say which group a pod belongs to."""

JOB_FIELDS = (
    *("JobId", "JobState", "Reason", "ExitCode", "RunTime", "TimeLimit", "StartTime", "EndTime", "Requeue"),
    *("Restarts", "BatchFlag", "Partition", "NodeList", "NumNodes", "NumTasks", "BatchHost", "SuspendTime"),
)
"""Of `scontrol show job`; the command, the folders, the user and the comment stay out."""

PODINFO_FILES = {
    "labels": None,
    "annotations": None,
    "name": "pod_name",
    "namespace": "pod_namespace",
    "uid": "pod_uid",
    "nodename": "node_name",
}
"""Files of the downward API by their usual names -> what they say."""

_VALUE = re.compile(r"[\w.:/@,+=\[\]\-()% ]{1,256}")
_FIELD = re.compile(r"\b([A-Z][A-Za-z]{2,24})=(\S{1,256})")
_LABEL_LINE = re.compile(r'^([\w./\-]{1,317})="((?:[^"\\]|\\.){0,256})"$', re.M)
_JOB_ID = re.compile(r"\d{1,12}(?:[_+]\d{1,8})?")
CALL_SECONDS = 3.0
"""Of one question to Slurm: a controller under load answers late, and a dead one not at all."""


def _allowed(variables: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Settings by name, of a harmless form; a value that is not stays out rather than being guessed at."""
    return {name: scrub_words(variables[name]) for name in names if _VALUE.fullmatch(variables.get(name, ""))}


def pod(
    environments: Iterable[Mapping[str, str]], podinfo: Iterable[Mapping[str, str]], uid: str | None
) -> dict[str, object]:
    """Name, UID, namespace, node, group labels; empty where nothing says that this is a pod.

    `environments`: likeliest first (the workers', then this program's own); `podinfo`: what the downward API's files
    (`PODINFO_FILES`) hold, likeliest first.
    """
    found: dict[str, object] = {}
    for variables in environments:
        for name, value in _allowed(variables, (*POD_VARIABLES, *GROUP_VARIABLES)).items():
            found.setdefault(name.lower(), value)
    labels: dict[str, str] = {}
    for files in podinfo:
        for file in ("labels", "annotations"):
            for key, value in _LABEL_LINE.findall(files.get(file, "")):
                if LABELS.fullmatch(key) and _VALUE.fullmatch(value):
                    labels.setdefault(key, scrub_words(value))
        for file, meaning in PODINFO_FILES.items():
            said = files.get(file, "").strip()
            if meaning is not None and _VALUE.fullmatch(said):
                found.setdefault(meaning, scrub_words(said))
    if labels:
        found["labels"] = labels
    if uid is not None:
        found.setdefault("pod_uid", uid)
    only_hostname = set(found) <= {"hostname"}
    return {} if only_hostname else found


def slurm(environment: Mapping[str, str]) -> dict[str, object]:
    """What a worker's environment says of its job; empty outside Slurm."""
    said = _allowed(environment, SLURM_VARIABLES)
    return {name.lower(): value for name, value in said.items() if name not in _OF_THE_RANK}


def slurm_job(job: str, deadline: Deadline) -> dict[str, object]:
    """What the controller says of the job and which of its processes run here; empty without Slurm's tools."""
    program = find_program("scontrol")
    if program is None or not _JOB_ID.fullmatch(job):
        return {}
    found: dict[str, object] = {}
    shown = run((program, "--oneliner", "show", "job", job), deadline.within(CALL_SECONDS), max_bytes=1 << 18)
    fields = dict(_FIELD.findall(shown.output.decode("utf-8", errors="replace")))
    kept = {name: fields[name] for name in JOB_FIELDS if name in fields and _VALUE.fullmatch(fields[name])}
    if kept:
        found["job"] = kept
    elif not shown.well:
        found["note"] = f"scontrol show job {shown.story}"
    listed = run((program, "listpids", job), deadline.within(CALL_SECONDS), max_bytes=1 << 18)
    rows = [line.split() for line in listed.output.decode("utf-8", errors="replace").splitlines()[1:]]
    tasks = [
        {"pid": int(row[0]), "step": row[2], "local_rank": row[3], "global_rank": row[4]}
        for row in rows
        if len(row) == 5 and row[0].isdecimal() and all(re.fullmatch(r"[\w\-.]{1,32}", cell) for cell in row)
    ]
    if tasks:
        found["pids"] = tasks[:1024]
    return found
