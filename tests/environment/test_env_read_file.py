"""Files that set variables, in every form that people keep them in."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

import pytest
import yaml
from build_env import read
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.environment.check import check
from rankmuster.environment.check_form import as_json, as_text
from rankmuster.environment.given import Unreadable
from rankmuster.environment.read_file import MAX_BYTES, read_bytes, read_file
from rankmuster.environment.read_manifest import quantity
from rankmuster.environment.variable import Engine

CONTAINER = {
    "name": "worker",
    "image": "registry.example/vllm:1",
    "env": [{"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "HF_TOKEN", "value": "hf_planted"}],
    "resources": {"limits": {"nvidia.com/gpu": 8}},
}
POD = {"containers": [CONTAINER], "initContainers": [{"name": "prepare", "image": "busybox"}]}
KINDS = {
    "Pod": POD,
    "Deployment": {"template": {"spec": POD}},
    "StatefulSet": {"template": {"spec": POD}},
    "Job": {"template": {"spec": POD}},
    "JobSet": {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": {"spec": POD}}}}]},
    "LeaderWorkerSet": {"leaderWorkerTemplate": {"workerTemplate": {"spec": POD}}},
    "CronJob": {"jobTemplate": {"spec": {"template": {"spec": POD}}}},
    "SomethingOfAnOperator": {"roles": [{"podTemplate": {"spec": POD}}]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_containers_are_found_in_objects_of_any_kind(kind: str, form: str) -> None:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "llm"}, "spec": KINDS[kind]}
    text = json.dumps(document) if form == "json" else yaml.safe_dump(document)
    init, worker = read(text)
    assert worker.values == {"NCCL_DEBUG": "INFO"}
    assert worker.engine is Engine.VLLM
    assert worker.pod is not None
    assert worker.pod.gpus == 8
    assert f"{kind} llm" in worker.where
    assert "container worker" in worker.where
    assert init.pod is not None
    assert init.pod.init


def test_several_documents_and_lists() -> None:
    one = {"kind": "Pod", "metadata": {"name": "a"}, "spec": POD}
    two = {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": name}, "spec": POD} for name in ("b", "c")]}
    found = read(yaml.safe_dump_all([one, None, two, "words"]))
    assert [given.where for given in found if given.pod and not given.pod.init] == [
        f"Pod {name}, container worker" for name in "abc"
    ]


def test_leader_and_worker_are_told_apart() -> None:
    spec = {"leaderWorkerTemplate": {"leaderTemplate": {"spec": POD}, "workerTemplate": {"spec": POD}}}
    found = read(yaml.safe_dump({"kind": "LeaderWorkerSet", "metadata": {"name": "llm"}, "spec": spec}))
    assert sum("leaderTemplate" in given.where for given in found) == 2
    assert sum("workerTemplate" in given.where for given in found) == 2


def test_references_and_sources() -> None:
    (given,) = read(
        """
        kind: Pod
        metadata: {name: x}
        spec:
          containers:
          - name: c
            envFrom: [{secretRef: {name: s}}]
            env:
            - {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
            - {name: BASE, value: /evidence}
            - {name: TORCH_FR_DUMP_TEMP_FILE, value: $(BASE)/$(UID)/rank_}
            - {name: NCCL_DEBUG_FILE, value: "$(BASE)/$$(x)/%h_%p"}
            - {name: NCCL_DEBUG, value: $(UID)}
            - {name: TORCH_NCCL_DUMP_ON_TIMEOUT, valueFrom: {configMapKeyRef: {name: a, key: b}}}
            - {name: NCCL_RAS_ENABLE, value: "0"}
            - {name: NCCL_RAS_ENABLE, value: "1"}
            - {name: TORCH_FR_BUFFER_SIZE, value: 2000}
        """
    )
    assert given.values["TORCH_FR_DUMP_TEMP_FILE"] == "/evidence/$(UID)/rank_"
    assert given.values["NCCL_DEBUG_FILE"] == "/evidence/$(x)/%h_%p"
    assert given.values["NCCL_RAS_ENABLE"] == "1"
    assert given.unknown == {"NCCL_DEBUG", "TORCH_NCCL_DUMP_ON_TIMEOUT"}
    assert len(given.odd) == 3
    assert any("envFrom" in text for text in given.odd)


@pytest.mark.parametrize(
    ("spec", "code", "there"),
    [
        ({}, "small_shm", True),
        ({"hostIPC": True}, "small_shm", False),
        ({"shm": {"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}}, "small_shm", False),
        ({"shm": {"emptyDir": {"medium": "Memory"}}}, "small_shm", False),
        ({"shm": {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}}, "small_shm", True),
        ({"shm": {"emptyDir": {}}}, "shm_on_disk", True),
        ({"hostNetwork": True}, "ras_shared_on_host", True),
        ({"rdma": True}, "no_ipc_lock", True),
        ({"rdma": True, "lock": True}, "no_ipc_lock", False),
    ],
)
def test_what_a_pod_lacks_is_named(spec: dict[str, object], code: str, there: bool) -> None:
    container: dict[str, object] = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    pod: dict[str, object] = {"containers": [container], "hostIPC": spec.get("hostIPC", False)}
    if "shm" in spec:
        container["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm/"}]
        pod["volumes"] = [{"name": "shm", **spec["shm"]}]  # type: ignore[dict-item]
    pod["hostNetwork"] = spec.get("hostNetwork", False)
    if "rdma" in spec:
        container["resources"] = {"limits": {"nvidia.com/gpu": "2", "rdma/hca": 1}}
    if "lock" in spec:
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    found = check(read(yaml.safe_dump({"kind": "Pod", "metadata": {"name": "x"}, "spec": pod})))
    assert (code in {one.code for one in found.all}) is there


def pod_of(*containers: dict[str, str], volumes: list[object] | None = None, mounts: list[object] | None = None) -> str:
    listed = [
        {
            "name": f"c{number}",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "env": [{"name": name, "value": value} for name, value in values.items()],
            "volumeMounts": mounts or [],
        }
        for number, values in enumerate(containers)
    ]
    spec = {"containers": listed, "volumes": volumes or []}
    return yaml.safe_dump({"kind": "Pod", "metadata": {"name": "x"}, "spec": spec})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({"NCCL_RAS_ADDR": "localhost:28028"}, {}, True),
        ({"NCCL_RAS_ADDR": "localhost:28100"}, {"NCCL_RAS_ADDR": "127.0.0.1:28100"}, True),
        ({"NCCL_RAS_ADDR": "localhost:28100"}, {"NCCL_RAS_ADDR": "localhost:28101"}, False),
        ({"NCCL_RAS_ENABLE": "0"}, {}, False),
    ],
)
def test_two_containers_of_a_pod_share_a_port(one: dict[str, str], other: dict[str, str], same: bool) -> None:
    report = check(read(pod_of(one, other)))
    assert ("same_ras_port" in {found.code for found in report.between}) is same


def test_a_dump_must_lie_on_a_volume() -> None:
    values = {"TORCH_FR_DUMP_TEMP_FILE": "/evidence/llm/rank_"}
    mount = [{"name": "e", "mountPath": "/evidence"}]
    for volumes, mounts, code in (
        ([], [], "not_on_a_volume"),
        ([{"name": "e", "emptyDir": {}}], mount, None),
        ([{"name": "e", "hostPath": {"path": "/data"}}], mount, "shared_on_host"),
    ):
        report = check(read(pod_of(values, volumes=list(volumes), mounts=list(mounts))))
        found = {one.code for one in report.all} & {"not_on_a_volume", "shared_on_host"}
        assert found == ({code} if code else set())


def test_instances_of_one_file_that_write_to_one_prefix() -> None:
    text = "---\n".join(
        pod_of({"TORCH_FR_DUMP_TEMP_FILE": "/e/llm/rank_"}).replace("name: x", f"name: {name}") for name in ("a", "b")
    )
    assert "same_prefix" in {one.code for one in check(read(text)).between}


def test_compose_in_both_forms() -> None:
    found = read(
        """
        services:
          a:
            image: lmsysorg/sglang
            environment:
              NCCL_DEBUG: INFO
              TORCH_NCCL_DUMP_ON_TIMEOUT: true
              NCCL_RAS_ADDR: ${ADDR}
              NCCL_DEBUG_FILE:
          b:
            environment:
            - NCCL_DEBUG=TRACE
            - NCCL_DEBUG_FILE
          c: {image: x}
        """
    )
    assert [given.where for given in found] == [f"given, service {name}" for name in "abc"]
    assert found[0].values == {"NCCL_DEBUG": "INFO", "TORCH_NCCL_DUMP_ON_TIMEOUT": "true"}
    assert found[0].unknown == {"NCCL_RAS_ADDR", "NCCL_DEBUG_FILE"}
    assert found[0].engine is Engine.SGLANG
    assert found[1].values == {"NCCL_DEBUG": "TRACE"}
    assert found[1].unknown == {"NCCL_DEBUG_FILE"}


@pytest.mark.parametrize(
    ("text", "values", "unknown"),
    [
        ("NCCL_DEBUG=INFO", {"NCCL_DEBUG": "INFO"}, set()),
        ("# words\n\nexport NCCL_DEBUG=INFO # more\n", {"NCCL_DEBUG": "INFO"}, set()),
        ("export NCCL_DEBUG='INFO' NCCL_ALGO=Ring", {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring"}, set()),
        ('NCCL_DEBUG_FILE="/a b/%h_%p"', {"NCCL_DEBUG_FILE": "/a b/%h_%p"}, set()),
        ("NCCL_DEBUG_FILE='/a $b'", {"NCCL_DEBUG_FILE": "/a $b"}, set()),
        ('NCCL_DEBUG_FILE="/a/$USER"', {}, {"NCCL_DEBUG_FILE"}),
        ("NCCL_DEBUG=$(level)", {}, {"NCCL_DEBUG"}),
        ("NCCL_DEBUG=`level`", {}, {"NCCL_DEBUG"}),
        ("NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO", {"NCCL_DEBUG": "INFO"}, set()),
        ("NCCL_DEBUG=\\\nINFO", {"NCCL_DEBUG": "INFO"}, set()),
        ("NCCL_DEBUG=INFO\r\nNCCL_ALGO=Ring\r\n", {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Ring"}, set()),
        ("ENV NCCL_DEBUG=INFO", {"NCCL_DEBUG": "INFO"}, set()),
        ('declare -x NCCL_DEBUG="INFO"', {"NCCL_DEBUG": "INFO"}, set()),
        ("HOME=/root\nPS1=it's me\nNCCL_DEBUG=INFO", {"HOME": "/root", "NCCL_DEBUG": "INFO"}, set()),
        ("#!/bin/sh\nset -e\nexport NCCL_DEBUG=INFO\nexec vllm serve x", {"NCCL_DEBUG": "INFO"}, set()),
        ("NCCL_DEBUG_FILE=/a b/c", {"NCCL_DEBUG_FILE": "/a b/c"}, set()),
        ("NCCL_DEBUG=", {"NCCL_DEBUG": ""}, set()),
    ],
)
def test_shell_is_read_and_not_run(text: str, values: dict[str, str], unknown: set[str]) -> None:
    (given,) = read_bytes(text.encode(), "x")
    assert given.values == values
    assert given.unknown == unknown


def test_quotes_that_do_not_close_are_named() -> None:
    (given,) = read_bytes(b"export NCCL_DEBUG='INFO\nNCCL_ALGO=Ring\n", "x")
    assert any("NCCL_DEBUG" in text for text in given.odd)
    assert given.values == {"NCCL_ALGO": "Ring"}


def test_a_copy_of_environ_is_read() -> None:
    (given,) = read_bytes(b"PATH=/bin\0NCCL_DEBUG=INFO\0odd\0=x\0NCCL_ALGO=\xff\xfe\0", "environ")
    assert given.values == {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "\\xff\\xfe"}


def test_a_bundles_own_environment_is_read() -> None:
    (given,) = read(json.dumps({"instance": "llm-0", "world_size": 2, "environment": {"NCCL_DEBUG": "INFO"}}))
    assert given.values == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  \n",
        b"words about nothing",
        b"\x00\x01\x02",
        bytes(range(1, 256)),
        b"kind: Pod\nspec: {}\n",
        b"[1, 2, 3]",
        b"{",
        b"a: [" * 10_000,
        b"%PDF-1.4",
        b"!!python/object/apply:os.system ['touch pwned']",
        b"x: 2001-99-99",
    ],
)
def test_what_sets_nothing_is_told(data: bytes) -> None:
    with pytest.raises(Unreadable, match="given"):
        read_bytes(data, "given")


def test_small_files_that_unfold_endlessly_end() -> None:
    folds = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))
    bomb = f"x0: &x0 [a, a]\n{folds}kind: Pod\nspec: {{containers: [{{name: *x11, image: *x11, env: *x11}}]}}\n"
    with pytest.raises(Unreadable):
        read_bytes(bomb.encode(), "given")
    inside = f"x0: &x0 [a, a]\n{folds}kind: Pod\nspec: {{containers: [{{name: c, image: *x11, command: *x11}}]}}\n"
    merges = "".join(f"y{n}: &y{n}\n  <<: [{', '.join([f'*y{n - 1}'] * 30)}]\n" for n in range(1, 9))
    for text in (inside, f"y0: &y0 {{k: 1}}\n{merges}"):
        with contextlib.suppress(Unreadable):
            read_bytes(text.encode(), "given")


def test_files_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (MAX_BYTES + 1))
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)
        server.bind("socket")
        for name, words in (
            ("absent", "No such file"),
            ("pipe", "no regular file"),
            ("large", "larger than"),
            (".", "directory"),
            ("socket", "No such device"),
            ("a\0b", "null"),
        ):
            with pytest.raises(Unreadable, match=words):
                read_file(Path(name))


def test_no_value_of_a_variable_that_is_not_ours_is_ever_shown() -> None:
    secret = "planted-0123456789"
    entries = [
        {"name": name, "value": secret}
        for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NCCL_MY_TOKEN", "TORCH_NCCL_TOKEN", "TORCH_FR_DUMP_TEMP_FIL")
    ]
    pod = {"containers": [{**CONTAINER, "env": entries, "command": [secret]}]}
    manifest = yaml.safe_dump({"kind": "Pod", "metadata": {"name": "x", "annotations": {"a": secret}}, "spec": pod})
    shell = "\n".join(f"export {entry['name']}='{secret}'" for entry in entries)
    environ = "\0".join(f"{entry['name']}={secret}" for entry in entries)
    broken = manifest + "\n  : [" + secret
    joined = f"export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC='2, name: HF_TOKEN, value: {secret}'\n"
    folded = json.dumps([{"name": f"TORCH_NCCL_H {secret}"}, {"name": "NCCL_DEBUG", "value": f"{{token: {secret}}}"}])
    for text in (manifest, shell, environ, broken, joined, folded):
        try:
            report = check(read_bytes(text.encode(), "given"))
            said = as_text(report) + as_json(report) + repr(report)
        except Unreadable as error:
            said = str(error)
        assert said
        assert secret not in said


@pytest.mark.parametrize(
    ("text", "number"),
    [(8, 8), ("16Gi", 16 << 30), ("500M", 500_000_000), ("1.5Ki", 1536), ("x", None), (None, None), (True, None)],
)
def test_quantities(text: object, number: int | None) -> None:
    assert quantity(text) == number


KEYS = sorted({*CONTAINER, *POD, "kind", "metadata", "spec", "template", "value", "valueFrom", "limits", "volumeMounts",
               "volumes", "services", "environment", "settings", "schema", "items", "command"})  # fmt: skip
TREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("NCCL_DEBUG")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(TREE.map(lambda tree: json.dumps(tree).encode()), st.binary(max_size=200), st.text().map(str.encode)))
def test_no_file_does_harm(data: bytes) -> None:
    try:
        found = read_bytes(data, "given")
    except Unreadable:
        return
    assert as_text(check(found))
    json.loads(as_json(check(found)))


HELM = """
---
# Source: chart/templates/empty.yaml
---
# Source: chart/templates/settings.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {NCCL_DEBUG: TRACE, TORCH_NCCL_TRACE_BUFFER_SIZE: "0", NCCL_SOCKET_IFNAME: eth0}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {NCCL_DEBUG: INFO}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  template:
    spec:
      containers:
      - name: c
        image: lmsysorg/sglang
        command: [sh, -c, "export NCCL_DEBUG_FILE=/e/$(hostname).%p; exec python3 -m sglang.launch_server"]
        envFrom:
        - configMapRef: {name: settings}
        - secretRef: {name: hidden}
        env:
        - {name: NCCL_DEBUG, value: WARN}
        - name: TORCH_FR_BUFFER_SIZE
          valueFrom: {configMapKeyRef: {name: settings, key: TORCH_NCCL_TRACE_BUFFER_SIZE}}
        - {name: NCCL_RAS_ADDR, valueFrom: {configMapKeyRef: {name: elsewhere, key: x}}}
"""


def test_config_maps_of_the_same_file_are_followed_and_secrets_are_not() -> None:
    (container,) = read(HELM)
    assert container.values == {
        "NCCL_DEBUG": "WARN",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
        "TORCH_FR_BUFFER_SIZE": "0",
    }
    assert container.unknown == {"NCCL_RAS_ADDR", "NCCL_DEBUG_FILE"}
    assert [text for text in container.odd if "Secret" in text]
    assert not [text for text in container.odd if "ConfigMap" in text]


def test_a_config_map_of_two_namespaces_is_not_guessed() -> None:
    again = HELM.replace(
        "---\napiVersion: apps", "---\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {}\n---\napiVersion: apps"
    )
    (container,) = read(again)
    assert container.values == {"NCCL_DEBUG": "WARN"}
    assert "TORCH_FR_BUFFER_SIZE" in container.unknown


def test_a_template_is_told_from_a_specification() -> None:
    with pytest.raises(Unreadable, match="helm template"):
        read("{{- if .Values.x }}\nkind: Pod\n{{- end }}\n")


@pytest.mark.parametrize(
    ("image", "torch"),
    [
        ("pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime", (2, 8, 0)),
        ("docker.io/pytorch/pytorch:2.11.0-cuda13", (2, 11, 0)),
        ("pytorch/pytorch:latest", None),
        ("vllm/vllm-openai:v0.11.0", None),
        ("own/pytorch:2.8.0-x", None),
    ],
)
def test_torchs_own_images_say_its_version(image: str, torch: tuple[int, ...] | None) -> None:
    (container,) = read(json.dumps({"kind": "Pod", "spec": {"containers": [{"name": "c", "image": image}]}}))
    assert container.torch == torch


def test_a_name_is_not_taken_for_the_end_of_a_longer_one() -> None:
    (found,) = read_bytes(b"export TORCH_NCCL_ENABLE_TIMING=$T NCCL_ENABLE_TIMING=1\n", "a.sh")
    assert found.values == {"NCCL_ENABLE_TIMING": "1"}
    assert found.unknown == {"TORCH_NCCL_ENABLE_TIMING"}


def test_a_line_of_endless_continuations_is_read_in_time() -> None:
    (found,) = read_bytes(b"NCCL_DEBUG=INFO\n" + b"a\\\n" * 1_300_000, "a.sh")
    assert found.values == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize("command", ["vllm serve m", "python3.11 -m sglang.launch_server", "/opt/bin/torchrun a.py"])
def test_what_is_set_for_one_command_is_set_for_it(command: str) -> None:
    (found,) = read_bytes(f"FOO=1 NCCL_DEBUG=TRACE NCCL_P2P_DISABLE=$P {command} --x=1 A=2\n".encode(), "a.sh")
    assert found.values == {"NCCL_DEBUG": "TRACE"}
    assert found.unknown == {"NCCL_P2P_DISABLE"}
    (found,) = read_bytes(f"NCCL_DEBUG=INFO {command}\n".encode(), "a.sh")
    assert found.values == {"NCCL_DEBUG": "INFO"}


def test_a_value_with_blanks_in_a_dumped_environment_is_one_value() -> None:
    (found,) = read_bytes(b"NCCL_DEBUG_TIMESTAMP_FORMAT=[%F %T]\nHOME=/a b\n", "env.txt")
    assert found.values == {"NCCL_DEBUG_TIMESTAMP_FORMAT": "[%F %T]", "HOME": "/a b"}


def test_compose_fills_in_names_without_braces_too() -> None:
    text = (
        "services:\n  a:\n    environment:\n      NCCL_DEBUG: $LEVEL\n      NCCL_ALGO: ${A}\n      NCCL_PROTO: a$$b\n"
    )
    (found,) = read_bytes(text.encode(), "compose.yaml")
    assert found.values == {"NCCL_PROTO": "a$b"}
    assert found.unknown == {"NCCL_DEBUG", "NCCL_ALGO"}


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("export NCCL_DEBUG=TRACE LOG=$HOME", True),
        ("NCCL_DEBUG=TRACE # not $HOME", True),
        ("export LOG=$HOME NCCL_DEBUG='TRACE'", True),
        ('NCCL_DEBUG="$LEVEL"', False),
        ("NCCL_DEBUG=\"'$LEVEL'\"", False),
        ("NCCL_DEBUG='a'$LEVEL", False),
        ("NCCL_DEBUG=$(cat level)", False),
        ("NCCL_DEBUG=`cat level`", False),
    ],
)
def test_only_what_stands_in_its_own_value_makes_it_unknown(line: str, known: bool) -> None:
    (found,) = read_bytes(line.encode(), "a.sh")
    assert ("NCCL_DEBUG" in found.values, "NCCL_DEBUG" in found.unknown) == (known, not known)
