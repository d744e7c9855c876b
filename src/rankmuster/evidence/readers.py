"""The registry of formats: every reader of evidence, documents in the order in which they are asked."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rankmuster.evidence.blob import Reader, ReaderKind

# Each module has READER or READERS. The most particular formats stand first: a document belongs to the first reader
# that recognises it and makes something of it.
_MODULES = (
    "flight_pickle",
    "flight_json",
    "flight_summary",
    "dump_requests",
    "manifest",
    "node_facts",
    "ras_query",
    "kernel_tasks",
    "gpu_facts",
    "network_counters",
    "instance",
    "gpu_samples",
    "engine_page",
    "engine_iterations",
    "ras_json",
    "ras_monitor",
    "ras_text",
    "ras_error",
    "ras_diagnostics",
    "nccl_inspector",
    "nccl_topology",
    "smi_topo",
    "smi_nvlink",
    "smi_xml",
    "smi_csv",
    "smi_list",
    "smi_query",
    "rdma",
    "nccl_log",
    "nccl_last_error",
    "torch_log",
    "torch_store",
    "torch_fingerprint",
    "exceptions",
    "crash_log",
    "worker_deaths",
    "engine_log",
    "stacks",
    "kernel_log",
    "service_journal",
    "pci_acs",
    "log_span",
)


@cache
def all_readers() -> tuple[Reader, ...]:
    """Every reader, documents before lines; imported on the first call, so that `--help` stays quick."""
    found: list[Reader] = []
    for name in _MODULES:
        module = import_module(f"{__package__}.{name}")
        several = getattr(module, "READERS", None)
        found.extend(several if several is not None else (module.READER,))
    return tuple(sorted(found, key=lambda reader: reader.kind is ReaderKind.LINES))
