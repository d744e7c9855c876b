"""The moment between our fork and the command's own program: bound to the supervisor, signals as a shell has them.

Runs as a program of its own, since what is done between fork and exec in a process with threads may block for ever.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
NOT_FOUND, NOT_RUN, ORPHANED = 127, 126, 125
"""Exit statuses: as shells have them, and for one whose supervisor was gone before it began."""


def main() -> None:
    """Arguments: the supervisor's pid, a descriptor with the command and its variables (JSON), one for what went wrong.

    torchrun ends its ranks on SIGTERM: that is what the kernel sends where the supervisor is gone.
    """
    parent, given, failed = (int(one) for one in sys.argv[1:4])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ORPHANED)
    os.set_inheritable(failed, False)
    with open(given, encoding="utf-8", errors="surrogateescape") as file:
        said = json.load(file)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and what is ignored stays so in the command
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    command = [os.fsencode(one) for one in said["command"]]
    variables = {os.fsencode(name): os.fsencode(value) for name, value in said["environment"].items()}
    try:
        os.execvpe(command[0], command, variables)  # noqa: S606 - what the user asked for
    except (OSError, ValueError) as error:
        why = getattr(error, "errno", None) or errno.EINVAL
        os.write(failed, str(why).encode())
        os._exit(NOT_FOUND if why in (errno.ENOENT, errno.ENOTDIR) else NOT_RUN)
