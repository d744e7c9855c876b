"""What an engine's command line says of its shape, its address and its logs. Pure: arguments in, values out.

Options as vLLM 0.6 to 0.33, SGLang 0.4 to 0.5, trtllm-serve, TGI 3 and LMDeploy 0.16 spell them; `-` and `_` are the
same in a name, a value stands behind `=` or in the next argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.find import titles

MAX_RANKS = 1_000_000
"""Ranks of one instance; larger products are damage. The same bound as the reader of `instance.json`."""

_SIZES = {
    "tp": ("--tensor-parallel-size", "--tp-size", "--tp", "-tp"),
    "pp": ("--pipeline-parallel-size", "--pp-size", "--pp", "-pp"),
    "dp": ("--data-parallel-size", "--dp-size", "--dp", "-dp"),
    "pcp": ("--prefill-context-parallel-size", "-pcp"),
    "nodes": ("--nnodes", "-n"),
    "step": ("--gpu-id-step",),
}
_STARTS = {
    "node_rank": ("--node-rank", "-r"),
    "dp_rank": ("--data-parallel-rank", "-dpn"),
    "dp_start": ("--data-parallel-start-rank", "-dpr"),
    "base_gpu": ("--base-gpu-id",),
}
PORTS = ("--port", "--metrics-port", "--http-port")
"""Under which a program of one's own says where it serves."""
_RENDEZVOUS = ("--dist-init-addr", "--nccl-init-addr")
_MASTER = (("--master-addr",), ("--master-port",))
_DP_ADDRESS = (("--data-parallel-address", "-dpa"), ("--data-parallel-rpc-port", "-dpp"))
_DEFAULT_PORTS = {
    titles.VLLM: 8000,
    titles.SGLANG: 30000,
    titles.TRTLLM: 8000,
    titles.TGI: 3000,
    titles.LMDEPLOY: 23333,
    titles.TRITON: 8002,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Parallel sizes of an engine. `dp_attention`: SGLang's data-parallel ranks share the tensor ranks' processes.

    `given`: whether a command line said any of it; without, all are 1 and mean nothing.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    pcp: int = 1
    nodes: int = 1
    node_rank: int = 0
    dp_rank: int | None = None
    dp_start: int = 0
    base_gpu: int = 0
    step: int = 1
    dp_attention: bool = False
    given: bool = False

    @property
    def replica(self) -> int:
        """Ranks of one data-parallel replica."""
        return self.tp * self.pp * self.pcp

    @property
    def world(self) -> int:
        """Ranks of the whole instance, on all nodes."""
        return self.replica * (1 if self.dp_attention else self.dp)


def value(command: tuple[str, ...], *names: str) -> str | None:
    """The last value of an option under any of its names, as argparse takes it."""
    found = None
    for at, argument in enumerate(command):
        if not argument.startswith("-"):
            continue
        name, equals, rest = argument.partition("=")
        if _plain(name) not in names:
            continue
        if equals:
            found = rest
        elif at + 1 < len(command) and not command[at + 1].startswith("--"):
            found = command[at + 1]
    return found


def has(command: tuple[str, ...], *names: str) -> bool:
    """Whether a flag is given."""
    return any(_plain(argument.partition("=")[0]) in names for argument in command if argument.startswith("-"))


def shape(command: tuple[str, ...], engine: str) -> Shape:
    """The sizes that a server's command line gives."""
    sizes = {key: _number(value(command, *names), least=1) for key, names in _SIZES.items()}
    starts = {key: _number(value(command, *names), least=0) for key, names in _STARTS.items()}
    given = {key: number for key, number in (sizes | starts).items() if number is not None}
    attention = engine == titles.SGLANG and has(command, "--enable-dp-attention")
    found = Shape(**given, dp_attention=attention, given=bool({"tp", "pp", "dp", "pcp"} & given.keys()))
    return found if found.world <= MAX_RANKS and found.nodes <= MAX_RANKS else Shape()


def rendezvous(command: tuple[str, ...]) -> str | None:
    """The address that parts of one instance share when each is started by its own command."""
    for names in (_RENDEZVOUS,):
        if (address := value(command, *names)) is not None:
            return address
    for (host, port), default in ((_MASTER, "29501"), (_DP_ADDRESS, "29550")):
        if (address := value(command, *host)) is not None:
            return f"{address}:{value(command, *port) or default}"
    port_only = value(command, *_DP_ADDRESS[1])
    return f"127.0.0.1:{port_only}" if port_only is not None else None


def address(command: tuple[str, ...], engine: str) -> tuple[str | None, int] | None:
    """Host (None: every one) and port of the metrics page; None where the engine serves none."""
    if engine not in _DEFAULT_PORTS:
        return None
    names = ("--metrics-port",) if engine == titles.TRITON else ("--port", "--server-port", "-p")
    said = _number(value(command, *names), least=1)
    return (host(command), said if said is not None and said < 65536 else _DEFAULT_PORTS[engine])


def port(command: tuple[str, ...]) -> int | None:
    """The port that a program of one's own says it serves at."""
    found = _number(value(command, *PORTS), least=1)
    return found if found is not None and found < 65536 else None


def host(command: tuple[str, ...]) -> str | None:
    """The address that a server says it binds; None: every one."""
    said = value(command, "--host", "--hostname", "--server-name", "--http-address", "--metrics-address")
    return None if said in (None, "", "0.0.0.0", "::", "[::]", "*") else said  # noqa: S104 - compared, never bound


def launched(command: tuple[str, ...], engine: str) -> int | None:
    """Ranks that torchrun starts on all its nodes together; None where it does not say so in numbers."""
    if engine != titles.TORCH:
        return None
    here = _number(value(command, "--nproc-per-node"), least=1)
    nodes = _number(value(command, "--nnodes") or "1", least=1)
    return here * nodes if here is not None and nodes is not None and here * nodes <= MAX_RANKS else None


def secure(command: tuple[str, ...]) -> bool:
    """Whether the server speaks TLS."""
    return has(command, "--ssl-certfile", "--ssl-keyfile")


def log_folders(command: tuple[str, ...], engine: str) -> tuple[str, ...]:
    """Folders, as the process sees them, in which a launcher keeps its workers' output."""
    if engine != titles.TORCH:
        return ()
    folder = value(command, "--log-dir", "--log_dir")
    return (folder,) if folder else ()


def _plain(name: str) -> str:
    return name[:2] + name[2:].replace("_", "-") if name.startswith("--") else name


def _number(text: str | None, *, least: int) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 7:
        return None
    number = int(text)
    return number if number >= least else None
