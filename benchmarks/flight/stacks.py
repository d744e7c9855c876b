"""Stacks as torch shares them: one frame per place in the code, shared by all stacks that pass through it.

The outer frames are the engine's loop, the inner ones torch's; between lie the model's, which differ between call
sites. Modules calling modules pass through the same frame of torch many times.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "/opt/engine/lib/python3.12/site-packages"


@dataclass(frozen=True, slots=True)
class Frame:
    name: str
    filename: str
    line: int


_INNER = (
    ("{op}", f"{ROOT}/torch/distributed/distributed_c10d.py", 2811),
    ("wrapper", f"{ROOT}/torch/distributed/c10d_logger.py", 83),
)
_OUTER = tuple(
    Frame(name, f"{ROOT}/engine/{file}", line)
    for name, file, line in (
        ("forward_step", "worker/step.py", 311),
        ("execute_model", "worker/model_runner.py", 1442),
        ("decorate_context", "utils/no_grad.py", 116),
        ("step", "worker/loop.py", 208),
        ("busy_loop", "worker/loop.py", 97),
        ("main", "worker/main.py", 64),
        ("<module>", "worker/main.py", 71),
    )
)
_MODULE_CALL = (
    Frame("_call_impl", f"{ROOT}/torch/nn/modules/module.py", 1788),
    Frame("_wrapped_call_impl", f"{ROOT}/torch/nn/modules/module.py", 1777),
)


def stack_of(site: str, op: str, depth: int) -> tuple[Frame, ...]:
    """The stack of one call site, innermost first, `depth` frames deep; none for 0."""
    if depth <= 0:
        return ()
    inner = [Frame(name.format(op=op), file, line + 7 * len(op)) for name, file, line in _INNER]
    area, _, leaf = site.partition(".")
    mark = sum(site.encode()) % 400
    middle = [Frame(leaf or area, f"{ROOT}/engine/parallel/{area}.py", 40 + mark)]
    while len(inner) + len(middle) + len(_OUTER) < depth:
        number = len(middle)
        # Every sixth frame or so is torch's own call of a module; the rest is this site's way through the model.
        if number % 6 == 5:
            middle.extend(_MODULE_CALL)
            continue
        middle.append(Frame(f"{area}_{number}", f"{ROOT}/engine/models/{area}.py", 100 + 11 * number + mark))
    kept = (*inner, *middle)[: max(depth - len(_OUTER), 1)]
    return (*kept, *_OUTER)[:depth]
