"""Manifests as people have them, for tests of inject."""

from __future__ import annotations

from typing import Any

import yaml

from rankmuster.kube.inject.manifest import Injected, inject_text
from rankmuster.kube.inject.settings import InjectSettings

ENGINE = """
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.15.1
          args: ["--model", "m"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""

DEPLOYMENT = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm, namespace: serve}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:{ENGINE}"""

STATEFUL_SET = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet").replace(
    "replicas: 3", "replicas: 3\n  serviceName: llm"
)

LWS = f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: llm, namespace: serve}}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata: {{labels: {{role: leader}}}}
      spec:{ENGINE}    workerTemplate:
      spec:{ENGINE}"""

JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: serve}
spec:
  replicatedJobs:
  - name: driver
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - {name: one, image: a}
            - {name: two, image: b}
  - name: workers
    replicas: 1
    template:
      spec:
        completions: 4
        parallelism: 4
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: rank
              image: a
              resources: {limits: {nvidia.com/gpu: 8}}
"""

INFERENCE_SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: qwen, namespace: serve}
spec:
  predictor:
    minReplicas: 1
    model:
      modelFormat: {name: huggingface}
      storageUri: hf://Qwen/Qwen2.5-7B
      args: ["--tensor-parallel-size=4"]
      env: [{name: HF_HUB_OFFLINE, value: "1"}]
      resources: {limits: {nvidia.com/gpu: "4"}}
"""

LLM_INFERENCE_SERVICE = """\
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: deepseek, namespace: serve}
spec:
  model: {uri: hf://deepseek-ai/DeepSeek-R1, name: deepseek-ai/DeepSeek-R1}
  parallelism: {data: 16, dataLocal: 8, expert: true}
  router: {route: {}, gateway: {}, scheduler: {}}
  template:
    containers:
    - {name: main, resources: {limits: {nvidia.com/gpu: "8", rdma/roce_gdr: 1}}}
  worker:
    containers:
    - {name: main, resources: {limits: {nvidia.com/gpu: "8", rdma/roce_gdr: 1}}}
  prefill:
    template:
      containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: "8"}}}
"""

LLM_D = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ms-llm-d-modelservice-decode
  namespace: llm-d
  labels: {llm-d.ai/inferenceServing: "true", llm-d.ai/role: decode}
spec:
  replicas: 1
  selector: {matchLabels: {llm-d.ai/role: decode}}
  template:
    metadata: {labels: {llm-d.ai/role: decode}}
    spec:
      serviceAccountName: ms
      initContainers:
      - name: routing-proxy
        image: ghcr.io/llm-d/llm-d-routing-sidecar:v0.3.0
        restartPolicy: Always
        args: ["--port=8000", "--vllm-port=8200", "--connector=nixlv2"]
        ports: [{containerPort: 8000}]
        securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true}
      containers:
      - name: vllm
        image: ghcr.io/llm-d/llm-d-cuda:v0.3.0
        command: ["vllm", "serve"]
        args: ["Qwen/Qwen3-32B", "--port", "8200", "--kv-transfer-config", '{"kv_connector":"NixlConnector"}']
        env:
        - {name: VLLM_NIXL_SIDE_CHANNEL_HOST, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: POD_IP, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.podIP}}}
        resources: {limits: {nvidia.com/gpu: "2"}, requests: {nvidia.com/gpu: "2"}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes:
      - name: shm
        emptyDir: {medium: Memory, sizeLimit: 20Gi}
"""

KINDS = {
    "deployment": DEPLOYMENT,
    "statefulset": STATEFUL_SET,
    "lws": LWS,
    "jobset": JOB_SET,
    "inferenceservice": INFERENCE_SERVICE,
    "llminferenceservice": LLM_INFERENCE_SERVICE,
    "llm-d": LLM_D,
}


def injected(text: str, **more: Any) -> Injected:
    return inject_text(text, "test.yaml", InjectSettings("1.2.3", **more))


def documents(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def one(text: str, *path: Any, **more: Any) -> Any:
    """What stands there in the only document after inject."""
    (value,) = documents(injected(text, **more).text)
    for key in path:
        value = value[key]
    return value


def environment(container: dict[str, Any]) -> dict[str, Any]:
    """Name -> value, or the path of its field."""
    found = {}
    for entry in container["env"]:
        assert entry["name"] not in found, "set twice"
        found[entry["name"]] = entry.get("value") or entry["valueFrom"]["fieldRef"]["fieldPath"]
    return found


def named(entries: list[dict[str, Any]], name: str = "rankmuster") -> dict[str, Any]:
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found
