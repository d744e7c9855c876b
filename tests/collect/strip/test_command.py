"""Command lines: the program, its module and its options stay, values only where they are known to be settings."""

# ruff: noqa: E501  # lines as programs are called

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import COMMAND, IN_COMMAND

from rankmuster.collect.strip.command import MAX_ARGUMENTS, allowed_command

LINES = {
    "vllm serve meta-llama/X --tensor-parallel-size 4 --api-key K --max-model-len=8192 --enforce-eager -tp 4 -dp=2":
        "vllm serve *** --tensor-parallel-size 4 --api-key *** --max-model-len=8192 --enforce-eager -tp 4 -dp=2",
    "/usr/bin/python3 -u -m vllm.entrypoints.openai.api_server --model /models/m --hf-token=T --port 8000":
        "/usr/bin/python3 -u -m vllm.entrypoints.openai.api_server --model /models/m --hf-token=*** --port 8000",
    "python3 -m sglang.launch_server --model-path /m --tp 8 --dist-init-addr 10.0.0.7:5000 --nnodes 2 --node-rank 1":
        "python3 -m sglang.launch_server --model-path /m --tp 8 --dist-init-addr 10.0.0.7:5000 --nnodes 2 --node-rank 1",
    "python -c 'import os; print(1)' a b": "python -c *** *** ***",
    "python -W error -X dev serve.py --lr 0.1": "python -W *** -X *** serve.py --lr ***",
    "torchrun --nproc-per-node 4 --rdzv-endpoint=n0:29500 train.py --lr 0.1 K":
        "torchrun --nproc-per-node 4 --rdzv-endpoint=n0:29500 train.py --lr *** ***",
    "mpirun --allow-run-as-root -np 8 -x NCCL_DEBUG=INFO -x HF_TOKEN=T python3 serve.py --token T":
        "mpirun --allow-run-as-root -np 8 -x NCCL_DEBUG=INFO -x HF_TOKEN=*** python3 serve.py --token ***",
    "env HF_TOKEN=T NCCL_DEBUG=INFO python serve.py": "env HF_TOKEN=*** NCCL_DEBUG=INFO python serve.py",
    "bash -lc 'export A=b; vllm serve m'": "bash -lc ***",
    "/bin/sh /opt/start.sh K": "/bin/sh /opt/start.sh ***",
    "srun -n 4 --export=ALL,TOKEN=T python serve.py": "srun -n 4 --export=*** python serve.py",
    "sglang::scheduler_DP0_TP3_EP3": "sglang::scheduler_DP0_TP3_EP3",
    "VLLM::Worker_TP0": "VLLM::Worker_TP0",
    "vllm serve m --port 8000 K --cuda-graph-bs 1 2 4": "vllm serve *** --port 8000 *** --cuda-graph-bs 1 2 4",
    "vllm serve m --compilation-config '{\"level\": 3}'": "vllm serve *** --compilation-config ***",
    "mysql -pK": "mysql -p***",
    "docker run -e KEY=V -e NCCL_DEBUG=WARN image": "docker *** -e KEY=*** -e NCCL_DEBUG=WARN ***",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_keeps_what_is_known_to_be_a_setting(line: str) -> None:
    assert " ".join(allowed_command(shlex.split(line))) == LINES[line]


def test_planted_secrets_are_not_told() -> None:
    told = " ".join(allowed_command(COMMAND))
    assert [secret for secret in IN_COMMAND if secret in told] == []
    assert "--tensor-parallel-size 4" in told


@pytest.mark.parametrize(
    "argv", [[], [""], ["\0"], ["\udc80\n"], ["a" * 100_000], ["python", "-m"], ["env", "-u"], ["-"]]
)
def test_odd_lines_are_told_in_some_way(argv: list[str]) -> None:
    told = allowed_command(argv)
    assert len(told) == len(argv)
    assert all(word.isprintable() and len(word) < 2000 for word in told)


def test_a_line_without_end_is_cut() -> None:
    told = allowed_command(["vllm", *["--x"] * 100_000])
    assert len(told) == MAX_ARGUMENTS + 1


@given(st.lists(st.sampled_from(["python", "-m", "-c", "--api-key", "KK", "env", "A=KK", "-x", "bash", "vllm", "serve", "--",
                                 "-tp", "KK=KK", "torchrun", "-", "", "--tp=4", "-eKK", "x.py", "mpirun", "--model"]),
                max_size=8))  # fmt: skip
def test_as_many_words_as_there_were(words: list[str]) -> None:
    assert len(allowed_command(words)) == len(words)


@given(st.lists(st.sampled_from(["python", "-m", "-u", "serve.py", "vllm", "serve", "--port", "8000", "--tp=4", "torchrun", "env",
                                 "hunter2secret", "--x", "-x", "--enforce-eager"]), min_size=1, max_size=8))  # fmt: skip
def test_a_positional_argument_is_told_nowhere_but_as_a_value_or_module(words: list[str]) -> None:
    told = allowed_command(["vllm", *words])
    for at, word in enumerate(told):
        if word == "hunter2secret":
            assert told[at - 1] in ("--port",)


@pytest.mark.parametrize(
    "secret", ["bXlzZWNyZXRwYXNzd29yZA==", "c2VjcmV0c2VjcmV0=", "JBSWY3DPEHPK3PXP====", "hunter2="]
)
@pytest.mark.parametrize("line", ["tool get {}", "mpirun -x {} python a.py", "mpirun {} python a.py", "tool --env {}"])
def test_the_padding_of_base64_makes_no_variable_of_it(line: str, secret: str) -> None:
    told = " ".join(allowed_command(line.format(secret).split()))
    assert secret.rstrip("=") not in told


def test_a_variable_of_a_command_keeps_its_name() -> None:
    line = "mpirun -x MY_TOKEN=planted -x NCCL_DEBUG=INFO -x http_proxy=u:p -x PATH=/bin python a.py"
    told = allowed_command(line.split())
    assert [word for word in told if "=" in word] == ["MY_TOKEN=***", "NCCL_DEBUG=INFO", "http_proxy=***", "PATH=***"]


@pytest.mark.parametrize("line", ["torchrun --rdzv-endpoint {} a.py", "tool --host={}", "tool --master-addr {}"])
def test_a_password_before_a_host_stays_out_as_in_the_environment(line: str) -> None:
    told = " ".join(allowed_command(line.format("user:planted-pw@node7:29500").split()))
    assert "planted-pw" not in told
    assert "node7:29500" in told
