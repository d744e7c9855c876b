"""What docs/flight-at-scale.md and deploy/kubernetes say holds together, and the pods' commands do what they say."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from flight_document import BLOCKS, ROOT, dumps_in, with_program

from rankmuster.cli import main


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return dumps_in(tmp_path / "dumps")


def documents(name: str) -> list[Any]:
    text = (ROOT / "deploy" / "kubernetes" / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def job(name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(the job's spec, its pod's spec, its one container)."""
    (found,) = documents(name)
    assert (found["apiVersion"], found["kind"]) == ("batch/v1", "Job")
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return found["spec"], pod, container


@pytest.mark.parametrize("name", ["flight-summarize.yaml", "flight-merge.yaml"])
def test_manifests_hold_together(name: str) -> None:
    spec, pod, container = job(name)
    assert pod["restartPolicy"] == "Never"  # what a Job with backoffLimitPerIndex needs
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["activeDeadlineSeconds"] <= 600
    assert set(spec) <= {
        "completionMode",
        "completions",
        "parallelism",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "template",
    }


def test_one_pod_for_each_node() -> None:
    spec, pod, container = job("flight-summarize.yaml")
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == spec["maxFailedIndexes"]
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    (dumps,) = [mount for mount in container["volumeMounts"] if mount["name"] == "dumps"]
    assert dumps["readOnly"] is True


def test_the_pods_commands_do_what_they_say(dumps: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both containers' commands, with the folders where the volumes would be mounted."""
    _, _, summarize = job("flight-summarize.yaml")
    _, _, merge = job("flight-merge.yaml")
    (environment,) = summarize["env"]
    assert environment["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    summaries = tmp_path / "summaries"
    summaries.mkdir()

    def here(word: str) -> str:
        word = word.replace(f"$({environment['name']})", "gpu-7")
        return word.replace("/dumps", str(dumps)).replace("/summaries", str(summaries))

    assert summarize["command"][0] == "rankmuster"
    assert main.status_of([here(word) for word in summarize["command"][1:]]) == 0
    assert (summaries / "gpu-7.rfs").exists()
    capfd.readouterr()
    done = subprocess.run(
        [here(word) for word in merge["command"]], env=with_program(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "culprit rank 2" in done.stdout


def test_there_are_three_ways_with_slurm_and_one_with_ssh() -> None:
    assert [next(word for word in ("srun", "ssh") if f"{word} -" in block) for block in BLOCKS] == ["srun"] * 3 + [
        "ssh"
    ]
