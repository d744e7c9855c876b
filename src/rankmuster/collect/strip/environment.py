"""Which environment variables may stand in a bundle: an allow-list of names, and a second look at what it lets through.

The first gate keeps everything out that says nothing of communication (`AWS_SECRET_ACCESS_KEY` never gets near a
bundle). The second looks at names and values, since prefixes let more through than is known today (`VLLM_API_KEY`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rankmuster.collect.strip.key_names import names_secret
from rankmuster.collect.strip.pem import scrub_pem
from rankmuster.collect.strip.secrets import scrub_secrets
from rankmuster.collect.strip.shapes import MASK, looks_secret

MAX_VALUE = 2048
"""Characters kept of one value: the longest that matter are lists of devices and hosts."""

MASKED = MASK.decode()

PREFIXES = (
    "NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCH_GLOO_", "TORCH_CPP_LOG", "TORCH_SHOW_CPP", "TORCH_SYMM_MEM",
    "TORCHELASTIC_", "PYTORCH_CUDA_ALLOC", "PYTORCH_ALLOC", "CUDA_DEVICE_", "CUDA_LAUNCH_", "CUDA_MODULE_",
    "CUDA_MPS_", "CUDA_COREDUMP_", "NVSHMEM_", "NVLS_", "GLOO_", "UCX_", "UCC_", "OMPI_COMM_WORLD_", "OMPI_MCA_",
    "PMI_", "PMIX_RANK", "FI_", "EFA_", "IB_", "RDMAV_", "MLX5_", "VLLM_", "SGLANG_", "SGL_", "TRTLLM_", "TLLM_",
    "LWS_", "JOB_COMPLETION_INDEX", "LMCACHE_", "NIXL_", "DEEP_EP", "DEEPEP_", "DG_", "FLASHINFER_",
    "RANKMUSTER_", "DYN_SYSTEM_", "GLOG_",
)  # fmt: skip
"""Families whose members set up communication or say who is who."""

NAMES = frozenset(
    """
    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
    NODE_RANK NNODES NPROC_PER_NODE MASTER_ADDR MASTER_PORT PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE
    PET_MASTER_ADDR PET_MASTER_PORT PET_RDZV_ENDPOINT PET_RDZV_BACKEND PET_MAX_RESTARTS DP_RANK TP_RANK PP_RANK
    EP_RANK CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_IMEX_CHANNELS CUDA_VERSION
    NVIDIA_REQUIRE_CUDA GPU_DEVICE_ORDINAL CUDA_HOME CUDA_COMPAT_PATH TORCH_DISTRIBUTED_DEBUG TORCH_LOGS
    TORCH_CUDA_ARCH_LIST TORCH_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS OMP_PROC_BIND OMP_PLACES
    PYTHONFAULTHANDLER PYTHONUNBUFFERED PYTHONHASHSEED TOKENIZERS_PARALLELISM LD_PRELOAD LD_LIBRARY_PATH
    MALLOC_ARENA_MAX HOSTNAME POD_NAME POD_NAMESPACE POD_UID POD_IP NODE_NAME HOST_IP TZ LANG
    KUBERNETES_SERVICE_HOST GROUP_INDEX WORKER_INDEX SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME SLURM_JOB_NODELIST
    SLURM_NODELIST SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE
    SLURM_TASKS_PER_NODE SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST
    SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS SLURM_GPUS SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK
    SLURM_STEP_GPUS SLURM_JOB_GPUS SLURM_CPUS_PER_TASK SLURM_CPUS_ON_NODE SLURM_MEM_PER_NODE SLURM_JOB_PARTITION
    SLURM_CLUSTER_NAME SLURM_RESTART_COUNT SLURM_TOPOLOGY_ADDR SLURMD_NODENAME SLURM_ARRAY_JOB_ID
    SLURM_ARRAY_TASK_ID SLURM_LAUNCH_NODE_IPADDR SLURM_DISTRIBUTION RAY_ADDRESS RAY_JOB_ID RAY_NODE_IP_ADDRESS
    RAY_CGRAPH_get_timeout RAY_CGRAPH_submit_timeout RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES RAY_DEDUP_LOGS
    RAY_LOG_TO_STDERR RAY_BACKEND_LOG_LEVEL RAY_TMPDIR ENABLE_INTRA_NODE_COMM DISABLE_CUSTOM_ALL_REDUCE
    """.split()  # noqa: SIM905  # a table; as a list it would be one line of a page
)
"""Single variables: who is who (ranks, devices, jobs, pods), and settings that change how ranks meet."""

NEVER = frozenset(
    {
        "NCCL_COMM_ID_SECRET",
        "SLURM_JWT",
        "SGLANG_API_KEY",
        "SGLANG_ADMIN_API_KEY",
        "VLLM_API_KEY",
        "OMPI_MCA_orte_precondition_transports",
    }
)
"""Let through by a prefix or often set beside one, and known to be secrets."""

_USERINFO = re.compile(r"^[^\s/@:,;]{1,128}:[^\s/@]{1,256}@(?=[\w.\[])")
"""`user:password@host`, as addresses are given where no scheme belongs (`MASTER_ADDR`, `PET_RDZV_ENDPOINT`)."""

_UUIDS = ("_UID", "_RUN_ID", "VISIBLE_DEVICES")
_HARMLESS = frozenset({"SGLANG_FORWARD_UNKNOWN_TOOLS", "TOKENIZERS_PARALLELISM"})


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that may be written down, by name. A value that may be a secret is `***`: that the
    variable is set is evidence, what it is set to is not."""
    return {name: _shown(name, environ[name]) for name in sorted(environ) if is_allowed(name)}


def is_allowed(name: str) -> bool:
    """Whether the variable may be named at all."""
    return (name in NAMES or name.startswith(PREFIXES)) and name.isprintable() and len(name) <= 128


def _shown(name: str, value: str) -> str:
    if name in NEVER or (name not in _HARMLESS and not _is_setting(name, value) and names_secret(name)):
        return MASKED if value else value
    if looks_secret(value) and not name.endswith(_UUIDS):
        return MASKED
    clean = scrub_secrets(scrub_pem(value.encode("utf-8", "replace"))).decode("utf-8", "replace")
    clean = without_userinfo(clean)
    clean = "".join(character if character.isprintable() else "?" for character in clean)
    return clean if len(clean) <= MAX_VALUE else f"{clean[:MAX_VALUE]}... ({len(clean)} characters)"


def without_userinfo(value: str) -> str:
    """An address without the user and password before its host."""
    return _USERINFO.sub(f"{MASKED}@", value)


def _is_setting(name: str, value: str) -> bool:
    """A number or a switch under a name that only looks like a secret's (`NCCL_IB_PKEY=0`, `VLLM_MAX_TOKENS_X=8`)."""
    short = value.strip().lower()
    is_number = len(short) <= 5 and short.removeprefix("-").replace(".", "", 1).isdigit()
    return (is_number or short in ("true", "false", "on", "off", "yes", "no")) and "PASS" not in name.upper()
