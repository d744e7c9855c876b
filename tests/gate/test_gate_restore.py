"""What puts a release back: every variable of communication has its bytes again, by shell, kubectl and kustomize."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate_world import DIGEST, workload
from rankmuster.gate.artefact import artefact_of, settings_hash
from rankmuster.gate.restore import NotRestorable, as_json_patch, as_kustomize, as_shell, command, patches
from rankmuster.gate.workload import Workload, workload_of
from rankmuster.model.release import Artefact

OTHER = "sha256:" + "b2" * 32
VALUES = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def read(document: Any, name: str = "llm.yaml") -> Workload:
    return workload_of(yaml.safe_dump(document, sort_keys=False).encode(), name)


def approved(document: Any, digest: str | None = None) -> Artefact:
    return artefact_of("llm-0", read(document), (), None, digest)


def container(document: Any) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][1]
    return found


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902: test, add, replace and remove, as an API server does them."""
    found = copy.deepcopy(document)
    for one in operations:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]]
        inner: Any = found
        for key in path:
            inner = inner[int(key) if isinstance(inner, list) else key]
        at: Any = int(last) if isinstance(inner, list) else last
        if one["op"] == "test":
            assert inner[at] == one["value"]
        elif one["op"] == "remove":
            del inner[at]
        elif one["op"] == "add" and isinstance(inner, list):
            assert 0 <= at <= len(inner)
            inner.insert(at, one["value"])
        else:
            assert one["op"] in ("add", "replace")
            assert isinstance(inner, list) or (at in inner) == (one["op"] == "replace")
            inner[at] = one["value"]
    return found


def changed() -> Any:
    """Another release: a variable changed, one new, one gone, another image."""
    document = workload(NCCL_NVLS_ENABLE="1", NCCL_ALGO="Ring", NCCL_RAS_ADDR=None)
    container(document)["image"] = f"vllm/vllm-openai@{OTHER}"
    container(document)["env"][0]["value"] = "hf_new"
    return document


def test_a_patch_restores_image_and_settings_byte_for_byte_and_touches_nothing_else():
    before, now = workload(NCCL_X="a b\t'\"$(POD_UID)\\ é"), changed()
    release = approved(before)
    (patch,) = patches(release, read(now))
    assert "hf_" not in as_json_patch(patch), "what is none of communication stands in no patch"
    after = patched(now, json.loads(as_json_patch(patch)))
    restored = artefact_of("llm-0", read(after), (), None, None)
    assert settings_hash(restored.parts[0].settings) == settings_hash(release.parts[0].settings)
    assert restored == release
    assert container(after)["env"][0] == {"name": "HF_TOKEN", "value": "hf_new"}, "a token is none of ours"
    assert container(after)["image"].endswith(DIGEST)
    assert [one["name"] for one in container(after)["env"]] == [one["name"] for one in container(before)["env"]]
    untouched = copy.deepcopy(after)
    container(untouched).update(env=container(now)["env"], image=container(now)["image"])
    assert untouched == now
    assert patches(release, read(after)) == (), "what is as it was approved needs no patch"


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["NCCL_A", "NCCL_B", "TORCH_NCCL_C", "NCCL_ALGO"]), VALUES), VALUES)
@example({"NCCL_A": "- x: {y}\n# z", "NCCL_B": "yes"}, "\t\r\n ")
def test_any_values_come_back(then, now):
    before = workload(**then)
    release = approved(before)
    today = workload(NCCL_NOW=now, NCCL_ALGO=now)
    made = patches(release, read(today))
    after = today
    for patch in made:
        after = patched(after, json.loads(as_json_patch(patch)))
    assert artefact_of("llm-0", read(after), (), None, None) == release


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not there")
def test_kustomize_makes_the_same_of_it(tmp_path):
    before, now = workload(NCCL_X="a: b # 'c'\n\"d\" é"), changed()
    release = approved(before)
    text = as_kustomize(patches(release, read(now)))
    (one,) = yaml.safe_load(text)["patches"]
    assert one["target"] == {
        "group": "leaderworkerset.x-k8s.io",
        "version": "v1",
        "kind": "LeaderWorkerSet",
        "name": "llm-0",
        "namespace": "serving",
    }
    # in the words of kubectl 1.20's kustomize, which later ones know too
    (tmp_path / "patch.json").write_text(one["patch"])
    (tmp_path / "llm.yaml").write_text(yaml.safe_dump(now, allow_unicode=True))
    kustomization = {"resources": ["llm.yaml"], "patchesJson6902": [{"target": one["target"], "path": "patch.json"}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    ran = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=True)
    assert artefact_of("llm-0", read(yaml.safe_load(ran.stdout)), (), None, None) == release


def test_a_shell_has_the_bytes_again(tmp_path):
    lines = "export NCCL_A='one two'\nexport NCCL_B=\"it's\"\nexport TORCH_NCCL_C=\nHF_TOKEN=hf_secret\n"
    release = artefact_of("llm-0", workload_of(lines.encode(), "env.sh"), (), None, None)
    now = workload_of(b"NCCL_A=x\nNCCL_NEW=y\nNCCL_B='it'\n", "now.env")
    script = tmp_path / "back.sh"
    script.write_text(as_shell(release, now))
    assert "hf_secret" not in script.read_text()
    ran = subprocess.run(
        ["sh", "-c", f'. "{script}"; env -0'],
        env={"PATH": "/usr/bin:/bin", "NCCL_NEW": "y", "NCCL_A": "x", "OTHER": "stays"},
        capture_output=True,
        check=True,
    )
    found = dict(entry.split(b"=", 1) for entry in ran.stdout.split(b"\0") if entry)
    communication = {name: value for name, value in found.items() if name.startswith((b"NCCL", b"TORCH"))}
    assert communication == {b"NCCL_A": b"one two", b"NCCL_B": b"it's", b"TORCH_NCCL_C": b""}
    assert found[b"OTHER"] == b"stays"


@settings(max_examples=25, deadline=None)
@given(VALUES.map(lambda text: text.replace("\r", "")))
def test_a_shell_gives_any_value_back(value):
    release = approved({"kind": "Pod", "spec": {"containers": [{"name": "a", "env": [_plain(value)]}]}})
    if "$(" in value:
        with pytest.raises(NotRestorable, match="only a pod has"):
            as_shell(release, None)
        return
    script = f"{as_shell(release, None)}env -0"
    ran = subprocess.run(["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    found = dict(entry.split(b"=", 1) for entry in ran.stdout.split(b"\0") if entry)
    assert found[b"NCCL_X"] == value.encode()


def _plain(value: str) -> dict[str, str]:
    return {"name": "NCCL_X", "value": value}


def test_what_only_a_pod_has_is_not_put_into_a_shell():
    with pytest.raises(NotRestorable, match="take --format pod-patch or kustomize"):
        as_shell(approved(workload()), None)


def test_a_tag_with_a_known_digest_comes_back_by_the_digest():
    before = workload()
    container(before)["image"] = "vllm/vllm-openai:v1"
    release = approved(before, DIGEST)
    (patch,) = patches(release, read(changed()))
    images = [one["value"] for one in patch.operations if one["path"].endswith("/image")]
    assert images == [f"vllm/vllm-openai:v1@{DIGEST}"]


def test_the_leader_and_its_workers_are_two_and_each_gets_its_own():
    document = workload()
    template = document["spec"]["leaderWorkerTemplate"]
    template["leaderTemplate"] = copy.deepcopy(template["workerTemplate"])
    template["leaderTemplate"]["spec"]["containers"][1]["env"].append({"name": "NCCL_LEADER", "value": "1"})
    release = approved(document)
    assert len(release.parts) == 2
    now = copy.deepcopy(document)
    for one in ("leaderTemplate", "workerTemplate"):
        now["spec"]["leaderWorkerTemplate"][one]["spec"]["containers"][1]["env"] = []
        now["spec"]["leaderWorkerTemplate"][one]["spec"]["containers"].reverse()
    (patch,) = patches(release, read(now))
    after = patched(now, json.loads(as_json_patch(patch)))
    assert artefact_of("llm-0", read(after), (), None, None).parts == release.parts
    with pytest.raises(NotRestorable, match="have different settings"):
        as_shell(release, None)


def test_what_is_not_there_any_more_is_said():
    gone = workload()
    container(gone)["name"] = "sglang"
    with pytest.raises(NotRestorable, match="is not in"):
        patches(approved(workload()), read({**gone, "kind": "StatefulSet", "spec": {"template": _pod(gone)}}))
    with pytest.raises(NotRestorable, match="is no Kubernetes object"):
        patches(artefact_of("a", workload_of(b"NCCL_A=1", "a"), (), None, None), workload_of(b"NCCL_A=2", "b"))


def _pod(document: Any) -> Any:
    return document["spec"]["leaderWorkerTemplate"]["workerTemplate"]


def test_how_a_patch_is_applied_is_said_for_a_shell():
    (patch,) = patches(approved(workload()), read(changed()))
    assert command(patch, "back.json") == (
        "kubectl --namespace serving patch LeaderWorkerSet.v1.leaderworkerset.x-k8s.io llm-0 --type json --patch-file "
        "back.json"
    )


def test_other_entries_stay_where_they_are_and_references_resolve():
    before = workload()
    container(before)["env"].append({"name": "RAS_PROBE", "value": "$(NCCL_RAS_ADDR)"})
    release = approved(before)
    now = copy.deepcopy(before)
    container(now)["env"].append(container(now)["env"].pop(0))  # the token stands last
    assert patches(release, read(now)) == ()
    names = [one["name"] for one in container(now)["env"]]
    del container(now)["env"][names.index("NCCL_RAS_ADDR")]
    (patch,) = patches(release, read(now))
    after = [one["name"] for one in container(patched(now, json.loads(as_json_patch(patch))))["env"]]
    assert after == names


def test_what_a_value_refers_to_comes_back_with_it_and_before_it():
    before = workload()
    container(before)["env"][:0] = [{"name": "ALGO", "value": "Ring"}, {"name": "NCCL_ALGO", "value": "$(ALGO)"}]
    release = approved(before)
    assert [one.name for one in release.parts[0].settings][:2] == ["ALGO", "NCCL_ALGO"]
    now = copy.deepcopy(before)
    container(now)["env"][0]["value"] = "Tree"
    (patch,) = patches(release, read(now))
    assert artefact_of("llm-0", read(patched(now, list(patch.operations))), (), None, None) == release
    container(now)["env"] = [one for one in container(now)["env"] if one["name"] != "ALGO"]
    (patch,) = patches(release, read(now))
    assert artefact_of("llm-0", read(patched(now, list(patch.operations))), (), None, None) == release


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_list_becomes_the_approved_one(data):
    """Names in any order on both sides, references among them: restored, and others neither moved nor written."""
    names = ["NCCL_A", "NCCL_B", "NCCL_C", "TORCH_NCCL_D", "OTHER_X", "OTHER_Y"]

    def environment(label: str) -> list[dict[str, str]]:
        chosen = data.draw(st.lists(st.sampled_from(names), unique=True), label=label)
        return [{"name": name, "value": data.draw(st.sampled_from(["1", "2", ""]), label=name)} for name in chosen]

    then, now = workload(), workload()
    container(then)["env"], container(now)["env"] = environment("then"), environment("now")
    release = approved(then)
    after = now
    for patch in patches(release, read(now)):
        after = patched(after, list(patch.operations))
    restored = artefact_of("llm-0", read(after), (), None, None)
    assert {one.name: one.value for one in restored.parts[0].settings} == {
        one.name: one.value for one in release.parts[0].settings
    }
    others = [[one for one in container(some)["env"] if one["name"].startswith("OTHER")] for some in (now, after)]
    assert others[0] == others[1]
    assert patches(release, read(after)) == ()


def test_another_item_of_a_list_is_not_patched_in_its_place():
    """A JobSet whose jobs were reordered: each job gets its own settings, found by its name."""

    def jobset(*names: str) -> dict[str, Any]:
        jobs = []
        for name in names:
            spec = {
                "containers": [
                    {"name": "vllm", "image": f"{name}@{DIGEST}", "resources": {"limits": {"nvidia.com/gpu": 1}}}
                ]
            }
            spec["containers"][0]["env"] = [{"name": "NCCL_ALGO", "value": name}]
            jobs.append({"name": name, "template": {"spec": {"template": {"spec": spec}}}})
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "llm"},
            "spec": {"replicatedJobs": jobs},
        }

    release = approved(jobset("leader", "worker"))
    assert patches(release, read(jobset("worker", "leader"))) == ()
    now = jobset("worker", "leader")
    now["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = []
    (patch,) = patches(release, read(now))
    assert {"op": "test", "path": "/spec/replicatedJobs/0/name", "value": "worker"} in patch.operations
    after = patched(now, list(patch.operations))
    assert patches(release, read(after)) == ()
    with pytest.raises(AssertionError):
        patched(jobset("leader", "worker"), list(patch.operations))


def test_what_sets_variables_unseen_now_cannot_be_undone_by_a_patch():
    now = workload()
    container(now)["envFrom"] = [{"secretRef": {"name": "more"}}]
    with pytest.raises(NotRestorable, match="envFrom"):
        patches(approved(workload()), read(now))
    shell = workload_of(b"NCCL_A=1\n", "then.env")
    today = workload_of(b"NCCL_A=1\nexport NCCL_ALGO=$(cat /x)\n", "now.env")
    assert "unset NCCL_ALGO" in as_shell(artefact_of("a", shell, (), None, None), today)


def test_kubernetes_names_are_exact_in_a_kustomization():
    before, now = workload(), changed()
    for one in (before, now):
        one["metadata"]["name"] = "llm.0"
    text = as_kustomize(patches(approved(before), read(now)))
    assert yaml.safe_load(text)["patches"][0]["target"]["name"] == "llm\\.0"
