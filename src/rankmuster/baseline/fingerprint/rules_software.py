"""What differences of versions, images and containers do."""

from __future__ import annotations

from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, DUMPS, PROFILE, Rule, Weight
from rankmuster.model.fingerprint import NONE

RULES = (
    Rule(
        "settings/shm",
        Weight.FAILS,
        "shared memory (/dev/shm) is small: NCCL's communicators fail with `failed to extend /dev/shm/nccl-...: "
        "No space left on device`, "
        "or die with SIGBUS; start the container with --shm-size=1g or more, or mount an emptyDir of medium Memory",
        "NCCL user guide, Troubleshooting, Docker; Docker's default is 64 MB",
        (BASELINE,),
        lambda d: d.after != "enough",
    ),
    Rule(
        "settings/shm",
        Weight.PATH,
        "shared memory (/dev/shm) is large enough again",
        "NCCL user guide, Troubleshooting, Docker",
        (BASELINE,),
    ),
    Rule(
        "container/memlock_bytes",
        Weight.FAILS,
        "less memory may be locked: registering buffers with the NIC fails (`ibv_reg_mr failed: Cannot allocate "
        "memory`); "
        "set --ulimit memlock=-1",
        "NCCL user guide, Troubleshooting, Docker: --ulimit memlock=-1",
        (ADMISSION,),
        lambda d: d.fell or (d.before == "unlimited" and d.after != "unlimited"),
    ),
    Rule(
        "container/memlock_bytes",
        Weight.NODE,
        "more memory may be locked",
        "NCCL user guide, Troubleshooting, Docker",
        (ADMISSION,),
    ),
    Rule(
        "container/devices",
        Weight.PATH,
        "other device files are in the container: without uverbs NCCL says `NET/IB : No device found` and takes "
        "sockets, "
        "without an IMEX channel there is no NVLink across nodes",
        "NCCL src/transport/net_ib; src/mnnvl.cc",
        (ADMISSION,),
    ),
    Rule(
        "container/container",
        Weight.NODE,
        "another kind of container: look at /sys, /dev/shm and memlock in it",
        "NCCL user guide, Troubleshooting, Docker",
        (ADMISSION,),
    ),
    Rule("container/cgroup", Weight.NOTE, "", "no effect on NCCL is known"),
    Rule(
        "driver",
        Weight.CLASS,
        "another driver: P2P, NVLS and the fabric are its work",
        "NVIDIA driver release notes",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "cuda_driver", Weight.CLASS, "the driver offers another CUDA version", "nvidia-smi, CUDA Version", (BASELINE,)
    ),
    Rule(
        "cudaVersion",
        Weight.CLASS,
        "another CUDA runtime: other kernels and launch costs",
        "NCCL builds are of one CUDA version",
        (BASELINE,),
    ),
    Rule(
        "ncclVersion",
        Weight.CLASS,
        "another NCCL: its tuning table, algorithms and defaults change with versions",
        "NCCL release notes; src/graph/tuning.cc",
        (BASELINE, DUMPS),
    ),
    Rule(
        "pytorchVersion",
        Weight.CLASS,
        "another PyTorch: other launch paths, and often another NCCL in its wheel",
        "PyTorch wheels pin nvidia-nccl",
        (BASELINE,),
    ),
    Rule(
        "imageDigest",
        Weight.CLASS,
        "another image: everything in it may be another version",
        "an image digest is over all of its layers",
        (BASELINE,),
    ),
    Rule(
        "engine*",
        Weight.CLASS,
        "another engine: it issues other collectives, and sets NCCL_* values of its own",
        "facts of vLLM, SGLang and TensorRT-LLM: docs/environment.md",
        (BASELINE,),
    ),
    Rule(
        "ncclTestProfile",
        Weight.NOTE,
        "a benchmark belongs to one of them alone",
        "docs/fingerprint.md: ncclTestProfile",
        when=lambda d: NONE in (d.before, d.after),
    ),
    Rule(
        "ncclTestProfile",
        Weight.CLASS,
        "another profile was measured: other operations and sizes, not to be compared",
        "the history is by class and profile",
        (PROFILE,),
    ),
    Rule(
        "machine",
        Weight.NODE,
        "another machine: results of one class serve both, the admission of one does not",
        "GPU UUIDs and NIC GUIDs, none in common",
        (ADMISSION,),
    ),
    Rule(
        "nccl_view/choices/*",
        Weight.SLOWER,
        "NCCL chose another algorithm, protocol or number of channels at this size",
        "its TUNING lines",
        (ADMISSION,),
    ),
    Rule(
        "nccl_view/gpus/*",
        Weight.SLOWER,
        "NCCL counts another number of NVLinks of this GPU: other channels, or less on each",
        "its topology dump",
        (ADMISSION, DUMPS),
    ),
    Rule(
        "nccl_view/nets/*",
        Weight.PATH,
        "NCCL sees the NIC at another speed, or with GPUDirect on one side alone: other rings over the network",
        "its topology dump",
        (ADMISSION, DUMPS),
    ),
    Rule(
        "nccl_view/transports",
        Weight.PATH,
        "NCCL connected its ranks another way: SHM for P2P, or NET without /GDRDMA, is a slower one",
        "the `via` words of NCCL's log",
        (ADMISSION,),
    ),
    Rule(
        "nccl_view/graphs", Weight.PATH, "NCCL found other graphs", "its graph dump or GRAPH lines", (ADMISSION, DUMPS)
    ),
)
"""First that fits."""
