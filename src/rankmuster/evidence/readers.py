"""The registry of formats: every reader of evidence, documents in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterator
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
    "supervisor_end",
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
    "gloo_sizes",
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
def _of_module(name: str) -> tuple[Reader, ...]:
    module = import_module(f"{__package__}.{name}")
    several = getattr(module, "READERS", None)
    return tuple(several) if several is not None else (module.READER,)


def documents() -> Iterator[Reader]:
    """Readers of whole documents, in order; each module is imported when it is its turn.

    A folder of nothing but dumps never gets further than the first few.
    """
    return (reader for name in _MODULES for reader in _of_module(name) if reader.kind is ReaderKind.DOCUMENT)


def lines() -> Iterator[Reader]:
    """Readers that share a text's lines."""
    return (reader for name in _MODULES for reader in _of_module(name) if reader.kind is ReaderKind.LINES)


@cache
def all_readers() -> tuple[Reader, ...]:
    """Every reader, documents before lines."""
    return (*documents(), *lines())
