"""Where a Python process of ours finds its modules, for one that it starts itself.

Such a one is isolated (-I): neither the working folder nor PYTHON* variables may put other modules in our place. And it
goes without `site` (-S), which runs whatever others have hung into this Python's start: 6 MB on a distribution's own.
"""

from __future__ import annotations

import os
import sys

import rankmuster

FLAGS = ("-I", "-S")


def own_path() -> list[str]:
    """For `sys.path`; with the folder of this package, which an editable install may find in ways that `site` sets."""
    places = [place for place in sys.path if os.path.isabs(place)]
    root = os.path.dirname(os.path.dirname(os.path.abspath(rankmuster.__file__)))
    return places if root in places else [*places, root]
