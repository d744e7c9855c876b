"""A calibration as text for people, as JSON (`rankmuster.calibration/1`), or as shell to source."""

from __future__ import annotations

import json
import shlex

from rankmuster.environment.calibrated import Value
from rankmuster.environment.calibration import Calibration
from rankmuster.environment.wrapped import WIDEST, wrapped
from rankmuster.report.inert import plain

SCHEMA = "rankmuster.calibration/1"


def as_text(calibration: Calibration, width: int = WIDEST) -> str:
    """One block for each value."""
    count = len(calibration.bundles)
    names = ", ".join(plain(name) for name in calibration.bundles[:3]) + (", ..." if count > 3 else "")
    lines = wrapped(f"calibration from {names}, for a window of {calibration.window:g} s", width, "")
    for value in calibration.values:
        lines += ["", *wrapped(f"{value.name}: {_number(value)}", width, "")]
        lines += wrapped(plain(value.basis), width, "  ")
        lines += wrapped(f"costs: {value.cost}", width, "  ") if value.cost else []
        lines += wrapped(f"would decide: {value.missing}", width, "  ") if value.missing else []
        lines += [f"  {name}={setting}" for name, setting in value.variables]
    lines += ["", *(line for note in calibration.notes for line in wrapped(f"note: {note}", width, ""))]
    return "\n".join(lines) + "\n"


def _number(value: Value) -> str:
    if value.number is None:
        return "undecided"
    number = f"{value.number:,.0f}" if value.number == int(value.number) else f"{value.number:g}"
    return f"{number} {value.unit} ({value.grounds.value})"


def as_shell(calibration: Calibration) -> str:
    """Only what is decided; the rest as comments."""
    lines = [f"# rankmuster calibrate, for a window of {calibration.window:g} s"]
    for value in calibration.values:
        if value.number is None:
            lines += wrapped(f"{value.name} is undecided; would decide: {value.missing}", WIDEST, "# ")
            continue
        lines += wrapped(f"{value.name}: {_number(value)}. {plain(value.basis)}", WIDEST, "# ")
        lines += wrapped(f"costs: {value.cost}", WIDEST, "#   ") if value.cost else []
        lines += [f"export {name}={shlex.quote(setting)}" for name, setting in value.variables]
        if value.name == "collective_timeout":
            lines += [
                f"# not a variable: vLLM --distributed-timeout-seconds {value.number:.0f}, SGLang --dist-timeout "
                f"{value.number:.0f},",
                f"# torch init_process_group(timeout=timedelta(seconds={value.number:.0f}))",
            ]
    lines += [line for note in calibration.notes for line in wrapped(f"note: {note}", WIDEST, "# ")]
    return "\n".join(lines) + "\n"


def as_json(calibration: Calibration) -> str:
    """Fields may be added, never renamed."""
    document = {
        "schema": SCHEMA,
        "bundles": list(calibration.bundles),
        "window_seconds": calibration.window,
        "decided": calibration.decided,
        "values": [
            {
                "name": value.name,
                "number": value.number,
                "unit": value.unit,
                "grounds": value.grounds.value,
                "basis": value.basis,
                "samples": value.samples,
                "cost": value.cost or None,
                "variables": dict(value.variables),
                "missing": value.missing or None,
                "to_set": value.to_set,
            }
            for value in calibration.values
        ],
        "notes": list(calibration.notes),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
