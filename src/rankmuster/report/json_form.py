"""The verdict as JSON (schema `rankmuster.verdict/1`): the form that programs and the scorer read."""

from __future__ import annotations

import json

from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_to_plain


def render(verdict: Verdict) -> str:
    """JSON in the schema's names and order, nulls kept, ASCII only (any host name, any pipe), ending with \\n."""
    return json.dumps(verdict_to_plain(verdict), indent=1, allow_nan=False) + "\n"
