"""What a process says of its own end, with the code or signal that it means."""

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.crash_log import READER
from rankmuster.model.frameworklog import CudaError, OutOfMemory, SignalDeath


def read(text: str, path: str = "all.log") -> tuple[object, ...]:
    return READER.read(Blob(path, text.encode())).observations


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", 700),
        ("RuntimeError: CUDA error: device-side assert triggered", 710),
        ("RuntimeError: CUDA error: unspecified launch failure", 719),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", 220),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", 214),
        ("x.py:1: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
         "functions before? Error 802: system not yet initialized (Triggered internally at c.cpp:119.)", 802),
        ("h:1:2 [0] x.cc:9 NCCL WARN Cuda failure 719 'unspecified launch failure'", 719),
        ("RuntimeError: CUDA error: something nobody has seen", None),
    ],
)  # fmt: skip
def test_cuda_errors_by_their_number(line, code):
    [error] = read(line + "\n")
    assert isinstance(error, CudaError)
    assert error.code == code


def test_out_of_memory_of_the_gpu_and_of_the_host():
    [cuda] = read(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 540.00 MiB. GPU 3 has a total capacity of\n"
    )
    assert isinstance(cuda, OutOfMemory)
    assert (cuda.device, cuda.gpu) == ("cuda", 3)
    [host] = read(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been\n"
    )
    assert isinstance(host, OutOfMemory)
    assert host.device == "host"


@pytest.mark.parametrize(
    ("line", "signal", "pid"),
    [
        ("Fatal Python error: Segmentation fault", 11, None),
        ("*** SIGSEGV received at time=1700000000 on cpu 3 ***", 11, None),
        ("[host:12:0:99] Caught signal 7 (Bus error: nonexistent physical address)", 7, None),
        ("  traceback : Signal 9 (SIGKILL) received by PID 14750", 9, 14750),
        (
            "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 812914 closing signal SIGTERM",
            15,
            812914,
        ),
        ("/var/spool/slurm_script: line 28:  8156 Killed                  python3 main.py", 9, 8156),
        ("Killed", 9, None),
    ],
)
def test_signals(line, signal, pid):
    [death] = read(line + "\n")
    assert isinstance(death, SignalDeath)
    assert (death.signal, death.victim_pid) == (signal, pid)


def test_a_process_that_dies_in_its_own_log_is_the_victim():
    [death] = read("Fatal Python error: Segmentation fault\n", "logs/rank2.log")
    assert isinstance(death, SignalDeath)
    assert death.victim_rank == 2


def test_pool_pressure_and_notices_are_no_deaths():
    assert not read(
        "[2025-01-06 02:58:44 TP0] Decode out of memory happened. #retracted_reqs: 1\n"
        "INFO 11-29 20:00:00 [f.py:1] CUDA error checks are on\n"
        "    raise torch.OutOfMemoryError(x)\n"
        "[rank0]:[W1129 21:08:32.02 x.cpp:1] Warning: CUDA warning: driver shutting down\n"
        "Killed by a test named Killed\n"
    )
