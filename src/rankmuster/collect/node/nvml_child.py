"""The child process that asks NVML, since NVML can block for ever after a GPU fault: facts and samples as JSON lines.

A thread per GPU, so that one that does not answer holds up no other. The process ends by itself when its standard input
closes (its parent is gone, or has had enough), when nobody reads its output, and at its own deadline. It never shuts
NVML down: that blocks too, and the kernel tidies up.

Lines on standard output: `{"kind": "driver", ...}` once; `{"kind": "gpu", "gpu": 0, ...}` as facts come in;
`{"kind": "sample", "gpu": 0, ...}`; `{"kind": "processes", "gpu": 0, "pids": [...]}`; `{"kind": "slow", "gpu": 0,
"call": "...", "seconds": 3.1}` while a call has not returned; `{"kind": "unusable", "reason": "...", "absent": true}`
where NVML cannot be used at all; `{"kind": "pair", "gpu": 0, "other": 1, ...}` (`nvml_pairs`); `{"kind": "end"}`.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
import threading
import time
from types import ModuleType

from rankmuster.collect.node.nvml_reads import Gpu

TYPE_CHECKING = False  # not from `typing`, which is 0.6 MB of a process that lasts for days
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIBRARY = "libnvidia-ml.so.1"
PLACES = (
    "/usr/local/nvidia/lib64",  # GKE, and containers whose runtime mounts the driver there
    "/usr/local/nvidia/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",  # GPU operator: the driver in a container
    "/run/nvidia/driver/usr/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
    "/usr/lib/wsl/lib",
)
"""Where the library is when the loader does not find it: a sidecar rarely has the runtime's paths."""

SLOW_SECONDS = 2.0
"""A call that takes longer is reported while it hangs; ordinary ones take 0.02 to 20 ms, 6 s and more with Xid 119."""

TICK = 0.5
"""Seconds in which the main thread looks at all GPUs' threads once: well below `SLOW_SECONDS`."""

_output = threading.Lock()


def emit(**line: Any) -> None:
    """Writes one line; whoever cannot be told any more need not be."""
    data = json.dumps(line).encode() + b"\n"
    try:
        with _output:
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        os._exit(0)


def main(options: dict[str, Any]) -> None:
    """`seconds`: life time; `interval`: between two samples; `mode`: "watch", "processes" or "path". Never returns.

    Mode "rounds" has neither: it samples when its parent asks, for as long as that lives (`nvml_rounds`).
    """
    if options["mode"] == "rounds":
        # Imported here: a collection has no use for it.
        from rankmuster.collect.node.nvml_rounds import serve

        serve(_begin, emit, xids=bool(options.get("xids")))
        os._exit(0)
    ends_at = time.monotonic() + float(options["seconds"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threading.Thread(target=_end_at, args=(ends_at,), daemon=True).start()
    try:
        _ask(options, ends_at)
    except Exception as error:  # said to the parent, which has no other way to learn of it
        emit(kind="unusable", reason=f"{type(error).__name__}: {error}", absent=False)
    emit(kind="end")
    os._exit(0)


def _begin() -> tuple[Any, list[Gpu]] | None:
    """Starts NVML; None where it cannot be used, which is said."""
    _do_without_search()
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        emit(kind="unusable", reason=f"the Python package nvidia-ml-py is not installed ({error})", absent=False)
        return None
    _preload()
    try:
        nvml.nvmlInit()
        count = int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        # NVML_ERROR_LIBRARY_NOT_FOUND 12, NVML_ERROR_DRIVER_NOT_LOADED 9.
        emit(kind="unusable", reason=str(error), absent=getattr(error, "value", None) in (9, 12))
        return None
    emit(kind="driver", count=count, time=time.time(), facts=_driver(nvml))
    return nvml, [Gpu(nvml, index) for index in range(count)]


def _do_without_search() -> None:
    """The binding imports the search for libraries, which it uses on Windows only; it starts compilers, and brings 2 MB
    of modules for that."""
    none = ModuleType("ctypes.util")
    none.__dict__["find_library"] = lambda _: None
    sys.modules.setdefault("ctypes.util", none)


def _ask(options: dict[str, Any], ends_at: float) -> None:
    begun = _begin()
    if begun is None:
        return
    _, gpus = begun
    work: Callable[[Gpu, float, float], None] = _list_processes if options["mode"] == "processes" else _watch
    if options["mode"] == "path":
        # Imported here: only a fingerprint asks for pairs.
        from rankmuster.collect.node.nvml_pairs import Pairs

        work = Pairs(gpus, _open, emit).ask
    interval = float(options["interval"])
    threads = [threading.Thread(target=work, args=(gpu, interval, ends_at), daemon=True) for gpu in gpus]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(TICK / len(threads))
        for gpu in gpus:
            asked = gpu.now_in
            if asked is not None and (seconds := time.monotonic() - asked[1]) > SLOW_SECONDS:
                emit(kind="slow", gpu=gpu.index, call=f"nvml{asked[0]}", seconds=round(seconds, 1))


def _driver(nvml: Any) -> dict[str, str]:
    facts: dict[str, str] = {}
    for key, name in (("Driver Version", "nvmlSystemGetDriverVersion"), ("NVML Version", "nvmlSystemGetNVMLVersion")):
        try:
            said = getattr(nvml, name)()
        except nvml.NVMLError:
            continue
        facts[key] = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    try:
        cuda = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        facts["CUDA Version"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    except (nvml.NVMLError, AttributeError):
        pass
    return facts


def _watch(gpu: Gpu, interval: float, ends_at: float) -> None:
    """A sample first, then the facts with samples between their parts, then samples to the end."""
    if not _open(gpu):
        return
    due = _sample(gpu, interval)
    for part in gpu.facts():
        emit(kind="gpu", gpu=gpu.index, **part)
        if time.monotonic() >= due:
            due = _sample(gpu, interval)
    emit(kind="gpu", gpu=gpu.index, complete=True)
    while time.monotonic() < ends_at:
        time.sleep(max(min(due, ends_at) - time.monotonic(), 0.0))
        due = _sample(gpu, interval)


def _list_processes(gpu: Gpu, _: float, __: float) -> None:
    if _open(gpu):
        emit(kind="processes", gpu=gpu.index, uuid=gpu.uuid, pids=gpu.pids(), used_mib=gpu.used_mib())


def _open(gpu: Gpu) -> bool:
    found = gpu.open()
    emit(kind="gpu", gpu=gpu.index, uuid=gpu.uuid, bus_id=gpu.bus, **({"error": gpu.error} if gpu.error else {}))
    return found


def _sample(gpu: Gpu, interval: float) -> float:
    """Takes one and says when the next is due: a GPU that answers slowly is asked less often."""
    began = time.monotonic()
    emit(kind="sample", gpu=gpu.index, **gpu.sample())
    return max(began + interval, time.monotonic() + interval / 2)


def _preload() -> None:
    """Loads the library from one of the usual places when the loader's own way finds none."""
    try:
        ctypes.CDLL(LIBRARY)
        return
    except OSError:
        pass
    for place in PLACES:
        try:
            ctypes.CDLL(f"{place}/{LIBRARY}", mode=ctypes.RTLD_GLOBAL)
            return
        except OSError:
            continue


def _end_with_parent() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os._exit(0)


def _end_at(moment: float) -> None:
    time.sleep(max(moment - time.monotonic(), 0.0))
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
