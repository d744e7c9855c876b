"""Variables: what says how ranks meet stays, what is or may be a secret does not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import IN_VARIABLES, VARIABLES

from rankmuster.collect.strip.environment import MAX_VALUE, allowed

KEPT = {
    "NCCL_DEBUG": "INFO",
    "NCCL_IB_PKEY": "0",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
    "NCCL_DEBUG_FILE": "/var/log/nccl/llm-0/%h.%p.log",
    "NCCL_COMM_ID": "10.0.0.7:29500",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_FR_DUMP_TEMP_FILE": "/tmp/nccl_trace_rank_",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCHELASTIC_RUN_ID": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
    "CUDA_VISIBLE_DEVICES": "GPU-9f3d2c1a-1111-2222-3333-444455556666,MIG-9f3d2c1a-1111-2222-3333-444455556666",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "VLLM_HOST_IP": "10.0.0.7",
    "VLLM_LOGGING_LEVEL": "DEBUG",
    "SGLANG_HEALTH_CHECK_TIMEOUT": "20",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NODELIST": "gpu[001-004]",
    "LWS_LEADER_ADDRESS": "llm-0.llm.default",
    "POD_UID": "3fa85f64-5717-4562-b3fc-2c963f66afa6",
    "MASTER_ADDR": "gpu001",
    "RANK": "3",
    "WORLD_SIZE": "8",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "eth0",
    "UCX_TLS": "rc,cuda_copy",
    "LD_LIBRARY_PATH": "/usr/local/cuda-12.8/targets/x86_64-linux/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
}


@pytest.mark.parametrize("name", KEPT)
def test_settings_of_communication_stay_as_they_are(name: str) -> None:
    assert allowed({name: KEPT[name]}) == {name: KEPT[name]}


@pytest.mark.parametrize(
    "name",
    [
        *("HOME", "PATH", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "OPENAI_API_KEY", "SLURM_JWT_X", "nccl_debug", ""),
        *("A=B", "PGPASSWORD", "KUBECONFIG", "NCCL_\x1b[2J"),
    ],
)
def test_everything_else_is_not_even_named(name: str) -> None:
    assert allowed({name: "planted"}) == {}


def test_planted_secrets_are_not_told() -> None:
    told = json.dumps(allowed(VARIABLES))
    assert [secret for secret in IN_VARIABLES if secret in told] == []
    assert allowed(VARIABLES)["VLLM_API_KEY"] == "***"  # that it is set is evidence


def test_a_value_without_end_is_cut() -> None:
    told = allowed({"NCCL_TOPO_FILE": "/a" * 10_000})["NCCL_TOPO_FILE"]
    assert len(told) < MAX_VALUE + 50
    assert told.endswith("(20000 characters)")


@given(st.text(max_size=200))
def test_any_value_can_be_written_as_one_line_of_json(value: str) -> None:
    told = allowed({"NCCL_DEBUG": value, "NCCL_X": value + "\udc80\n"})
    json.dumps(told).encode("ascii")
    assert all("\n" not in text and text.encode() for text in told.values() if text)


def test_a_password_before_an_address_without_a_scheme_is_masked() -> None:
    shown = allowed({"MASTER_ADDR": "user:hunter2@10.0.0.1", "PET_RDZV_ENDPOINT": "root:pw@etcd:2379"})
    assert shown == {"MASTER_ADDR": "***@10.0.0.1", "PET_RDZV_ENDPOINT": "***@etcd:2379"}
    kept = {"MASTER_ADDR": "10.0.0.1", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_RAS_ADDR": "localhost:28028"}
    assert allowed(kept) == kept
