"""numpy without the threads of its linear algebra, which no command uses.

They take half of the time that numpy takes to start, and more the more cores there are. OpenBLAS reads the variable
once, when it is loaded; it is taken back then, so that no process that a command starts inherits it.
"""

from __future__ import annotations

import os
import sys

THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Imports numpy, with one thread unless the user says otherwise."""
    if "numpy" in sys.modules or THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import numpy  # noqa: F401  # for whoever imports it next
    finally:
        del os.environ[THREADS]
