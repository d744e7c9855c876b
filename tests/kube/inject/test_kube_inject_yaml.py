"""What comes out is read by Kubernetes' own reader as what was meant, and what nobody changed stays as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from kube_inject_manifests import DEPLOYMENT, KINDS, LLM_D, LWS, STATEFUL_SET, documents, injected

from rankmuster.kube.inject.documents import NotReadable, as_yaml, read

VERSIONS = ("1.34", "1.35", "1.36", "1.37")

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: serve}
spec: {restartPolicy: Never, containers: [{name: engine, image: a}]}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: one, namespace: serve}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: engine, image: a}]}}}
"""
CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: one}
spec:
  schedule: "* * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: engine, image: a}]}}}}
"""


def kubectl_reads(text: str, folder: Path) -> list[Any]:
    """The objects as kubectl's YAML reader has them."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here")
    (folder / "in.yaml").write_text(text, encoding="utf-8")
    (folder / "kustomization.yaml").write_text("resources: [in.yaml]\n")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [one.value for one in read(done.stdout.decode(), "kubectl's") if one.value is not None]


@pytest.mark.parametrize("text", [DEPLOYMENT, STATEFUL_SET, LLM_D, POD, JOB, CRON_JOB])
def test_the_result_is_what_kubernetes_takes(text: str) -> None:
    (value,) = documents(injected(text, gate=True).text)
    for version in VERSIONS:
        kubernetes_validate.validate(value, version, strict=True)


def test_kubectl_reads_the_same(tmp_path: Path) -> None:
    texts = [
        injected(one).text.replace("name: llm\n", f"name: llm-{index}\n", 1) for index, one in enumerate(KINDS.values())
    ]
    text = "---\n".join(texts)
    ours = {(one["kind"], one["metadata"]["name"]): one for one in documents(text)}
    theirs = {(one["kind"], one["metadata"]["name"]): one for one in kubectl_reads(text, tmp_path)}
    assert theirs == ours


STRANGE = {
    "octal": "0o17",
    "number": "1e3",
    "time": "1:30",
    "date": "2024-01-01",
    "word": "yes",
    "letter": "y",
    "null": "~",
    "empty": "",
    "colon": "a: b",
    "hash": "a #b",
    "dash": "- a",
    "star": "*a",
    "bang": "!a",
    "equals": "=",
    "merge": "<<",
    "lead": " a",
    "trail": "a ",
    "tab": "a\tb",
    "lines": "a\n  b\n\nc\n",
    "ends": "a\nb",
    "keeps": "a\n\n\n",
    "indent": "  a\nb\n",
    "wide": "ü\u2028\u00a0\U0001f600",
    "percent": "%a",
    "quote": 'it\'s "so"',
    "dots": "...",
    "document": "---\na",
    "long": "x " * 200,
}


def test_strings_stay_strings_for_every_reader(tmp_path: Path) -> None:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strange"}, "data": STRANGE}
    text = as_yaml(value)
    assert read(text, "x")[0].value == value
    assert documents(text) == [value]
    assert kubectl_reads(text, tmp_path)[0]["data"] == STRANGE


def test_what_is_not_changed_comes_out_byte_for_byte() -> None:
    service = "# mine\nkind: Service\nmetadata: {name: x}   # as it was\nspec: {ports: [{port: 0x50}]}\n"
    script = "---\nkind: ConfigMap\ndata:\n  run: |\n    a\n    --- b\n     ---\n"
    end = "---\n# only words\n"
    made = injected(service + "---\n" + DEPLOYMENT + script + end)
    assert made.text.startswith(service)
    assert made.text.endswith(script + end)
    assert len(made.done) == 1
    assert made.left == ("Service x", "ConfigMap without a name")
    assert injected(service).text == service
    assert injected("").text == ""


def test_anchors_are_not_shared_between_templates() -> None:
    text = LWS.replace("leaderTemplate:\n", "leaderTemplate: &t\n", 1)
    text = text[: text.index("    workerTemplate:")] + "    workerTemplate: *t\n"
    (value,) = documents(injected(text).text)
    group = value["spec"]["leaderWorkerTemplate"]
    for part in (group["leaderTemplate"], group["workerTemplate"]):
        assert len(part["spec"]["initContainers"]) == 1
    assert "&" not in injected(text).text


def test_merge_keys_windows_lines_and_lists_are_read() -> None:
    text = DEPLOYMENT.replace("metadata: {name: llm", "x: &x {a: 1}\ny: {<<: *x, b: 2}\nmetadata: {name: llm")
    (value,) = documents(injected(text.replace("\n", "\r\n")).text)
    assert value["y"] == {"a": 1, "b": 2}
    items = "\n".join(f"  {line}" for line in DEPLOYMENT.splitlines())
    made = injected("\ufeffapiVersion: v1\nkind: List\nitems:\n-" + items[1:])
    assert len(made.done) == 1
    assert injected(json.dumps(documents(DEPLOYMENT)[0])).done


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "line 1"),
        ("a: 1\n---\nb: {\n", "line"),
        ("kind: Pod\nspec: {{ .Values.x }}\n", "render it first"),
        ("a: &a\n  b: *a\n", "holds itself"),
        ("a: 1\na: 2\n", "twice"),
        ("? [1]\n: 2\n", "no text"),
        ("a: !!python/object:os.system x\n", "line 1"),
        ("a: *nothing\n", "line 1"),
        ("\x00", "test.yaml"),
        ("a: " + "[" * 500, "."),
        ("a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)), "aliases"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_where(text: str, said: str) -> None:
    with pytest.raises(NotReadable, match=said):
        injected(text)
