"""The front end of the drill's engine, a process of its own: it goes on answering while every rank hangs.

`python -m rankmuster.drill.engine_front FOLDER --parent PID --fd FD --host 127.0.0.1 --port PORT`, FOLDER that of the
incarnation, with the line to the scheduler as a descriptor (`engine_line.LINE_FD`).
"""

from __future__ import annotations

import socket
import sys
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

from rankmuster.drill.engine_folder import RECORD
from rankmuster.drill.engine_http import handler
from rankmuster.drill.engine_line import Line
from rankmuster.drill.engine_record import Record, What
from rankmuster.drill.engine_requests import Requests
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.page import page
from rankmuster.drill.plan import LEDGER, TALLY
from rankmuster.drill.server import START_POLL
from rankmuster.drill.tally import Tally
from rankmuster.drill.tether import die_with

PROGRAM = (sys.executable, "-u", "-m", "rankmuster.drill.engine_front")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes is none; everything else has said so itself."""


def main(arguments: list[str]) -> None:
    """Serves until a signal ends it."""
    folder, options = Path(arguments[0]), dict(zip(arguments[1::2], arguments[2::2], strict=True))
    die_with(int(options["--parent"]))
    listening = socket.socket(fileno=int(options["--fd"]))
    tally, ledger = Tally(folder / TALLY), Ledger(folder / LEDGER)
    record = Record(folder / RECORD)
    requests = Requests(Line.handed(), record)
    answers = handler(requests, record, lambda: page(ledger.read()), int(folder.name))
    server = _Server(listening.getsockname()[:2], answers, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    while not tally.steps:
        time.sleep(START_POLL)
    server.server_activate()
    record.write(What.READY)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
