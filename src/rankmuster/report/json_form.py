"""The verdict as JSON (schema `rankmuster.verdict/1`): the form that programs and the scorer read."""

from __future__ import annotations

import json
import math
from typing import Any

from rankmuster.model.verdict import Verdict


def _finite(value: Any) -> Any:
    """`value` with NaN and infinities as null: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "value"):  # an enum of the model
        return value.value
    return value


def render(verdict: Verdict) -> str:
    """JSON by alias, keys in the schema's order, nulls kept, ASCII only (any host name, any pipe), ending with \\n."""
    return json.dumps(_finite(verdict.model_dump(by_alias=True)), indent=1, allow_nan=False) + "\n"
