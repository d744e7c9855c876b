"""The page over HTTP: prometheus_client's own application behind a small server that nobody can hold up.

Its own `start_http_server` waits for ever for who connects and says nothing, opens a thread for each, and asks the
resolver for this host's name first, which may hang on a node whose network is ill.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from rankmuster.metrics.registry import Registry
from rankmuster.metrics.scrape import collector

SLOW_SECONDS = 10.0
"""How long somebody who connects may be silent: Prometheus' own time-out of a scrape by default."""

MOST_SCRAPERS = 16
"""Served at once: two Prometheus servers and a few people. Further ones are turned away, not kept waiting."""

LOOPBACK = "127.0.0.1"
ANY = "*"


class ListenRefused(Exception):
    """The address cannot be listened on; the message says why and what to change."""


def address_of(listen: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT`; `*:PORT` is every address, of both kinds; without a host (`:9464`, `9464`) the
    loopback. Raises ListenRefused."""
    host, _, port = listen.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ListenRefused(f"{listen!r} is no address to listen on; wanted is HOST:PORT, such as {LOOPBACK}:9464")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare and bare == host:
        raise ListenRefused(f"{listen!r}: an IPv6 address stands in brackets, such as [::1]:9464")
    return bare or LOOPBACK, int(port)


class PageServer:
    """Serves `registry` on `listen` from threads of its own, from when it is made until `close`.

    Raises ListenRefused, and MetricsUnavailable without prometheus_client.
    """

    def __init__(self, listen: str, registry: Registry) -> None:
        host, port = address_of(listen)
        collectors = collector(registry)
        from prometheus_client import make_wsgi_app

        try:
            self._server = _bound(host, port)
        except OSError as error:
            raise ListenRefused(
                f"metrics cannot be served on {listen}: {error.strerror or error}; another program may have the port "
                "(ss -ltnp shows which), or the address is none of this machine's: name another with `listen`"
            ) from error
        self._server.set_app(make_wsgi_app(collectors))
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on: the port that was given for 0 too."""
        return str(self._server.server_address[0]), int(self._server.server_address[1])

    def close(self) -> None:
        """Ends it; scrapes under way are left to end by themselves."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=1.0)


def _bound(host: str, port: int) -> _Server:
    """Raises OSError. `*` is no name: a resolver that is asked for it may even know one, and it is the loopback."""
    if host == ANY:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return _server(socket.AF_INET6)(("::", port), _Handler)
        return _server(socket.AF_INET)(("", port), _Handler)
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=_flags(host))[0]
    return _server(family)(address, _Handler)


def _flags(host: str) -> int:
    """A number is not looked up."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return int(socket.AI_NUMERICHOST)
    return 0


def _server(family: int) -> type[_Server]:
    return type("_ServerOfFamily", (_Server,), {"address_family": family})


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, address: Any, handler: type[WSGIRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(MOST_SCRAPERS)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer's own asks the resolver for a name that no page shows.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that went away is none of the watch's trouble."""


class _Handler(WSGIRequestHandler):
    timeout = SLOW_SECONDS

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """A line for every scrape would bury everything else."""

    def get_stderr(self) -> Any:
        return _Nowhere()

    def handle(self) -> None:
        """As the base class's, but a request's answer too is sent within the time-out."""
        with contextlib.suppress(OSError):
            super().handle()


class _Nowhere:
    """Where tracebacks of broken connections go."""

    def write(self, text: str) -> None:
        """Says nothing."""

    def flush(self) -> None:
        """Has nothing."""
