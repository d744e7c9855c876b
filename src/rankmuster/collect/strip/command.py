"""Which parts of a command line may stand in a bundle: the program, its module or script, the names of its options, and
the values of options that are known to hold settings. Everything else is `***`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from rankmuster.collect.strip import environment
from rankmuster.collect.strip.key_names import names_secret
from rankmuster.collect.strip.secrets import scrub_secrets
from rankmuster.collect.strip.shapes import looks_secret

MASKED = environment.MASKED
MAX_ARGUMENTS = 512
"""Kept of one command line; an engine's own has a few dozen."""
MAX_VALUE = 512
"""Characters kept of one value."""

VALUES = frozenset(
    """
    model model-path served-model-name tokenizer-mode load-format dtype quantization kv-cache-dtype device revision
    tensor-parallel-size tp tp-size tp_size pipeline-parallel-size pp pp-size pp_size data-parallel-size dp dp-size
    data-parallel-size-local data-parallel-rank data-parallel-start-rank data-parallel-address
    data-parallel-rpc-port data-parallel-backend expert-parallel-size ep ep-size ep_size enable-expert-parallel
    all2all-backend moe-a2a-backend deepep-mode decode-context-parallel-size prefill-context-parallel-size
    context-parallel-size attention-backend distributed-executor-backend distributed-timeout-seconds nnodes
    node-rank nproc-per-node nproc_per_node nnode dist-init-addr dist-timeout dist-init-method master-addr
    master-port master_addr master_port node_rank rdzv-backend rdzv-endpoint rdzv-id rdzv_backend rdzv_endpoint
    rdzv_id max-restarts max_restarts monitor-interval local-ranks-filter start-method role standalone headless host
    port api-server-count grpc-port base-gpu-id gpu-id-step mem-fraction-static gpu-memory-utilization max-model-len
    max-num-seqs max-num-batched-tokens max-running-requests max-total-tokens max-batch-size max-num-tokens
    max-seq-len context-length block-size page-size chunked-prefill-size swap-space cuda-graph-max-bs cuda-graph-bs
    max-seq-len-to-capture cudagraph-capture-sizes num-continuous-decode-steps schedule-policy
    schedule-conservativeness scheduling-policy seed worker-cls worker-extension-cls watchdog-timeout
    soft-watchdog-timeout log-level log-level-http backend disaggregation-mode disaggregation-transfer-backend
    disaggregation-bootstrap-port disaggregation-ib-device speculative-algorithm speculative-num-steps
    num-speculative-tokens tool-call-parser reasoning-parser mm-attention-backend runner task convert config-format
    max-log-len decode-log-interval tp-init-timeout kv-transfer-port num-nodes ntasks ntasks-per-node nodes gpus
    gpus-per-node gpus-per-task cpus-per-task cpu-bind mpi np n num-gpus num-cpus node-ip-address map-by bind-to
    address npernode N m cpunodebind membind physcpubind
    """.split()  # noqa: SIM905  # a table; as a list it would be one line of a page
)
"""Options of engines and launchers whose values are settings of the instance's shape, its timing or its traffic."""

_VARIABLES = frozenset({"-e", "-x", "--env", "--export", "--genv", "-genv"})
_SHORT_WITH_VALUE = {"-tp", "-pp", "-dp", "-ep", "-dcp", "-pcp", "-q", "-n", "-np", "-N", "-c", "-m", "-W", "-X", "-t"}
_LAUNCHERS = frozenset(
    {
        *("torchrun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun", "accelerate", "trtllm-llmapi-launch"),
        *("numactl", "taskset", "env", "nice", "timeout", "stdbuf", "tini", "dumb-init", "nohup", "setsid", "exec"),
        *("sudo", "nsys", "ncu", "uv", "catchsegv", "unbuffer", "chrt"),
    }
)
_ENGINES = frozenset(
    {
        *("vllm", "sglang", "trtllm-serve", "ray", "lmdeploy", "text-generation-launcher", "tritonserver", "dynamo"),
        "rankmuster",
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "busybox"})
_SUBCOMMANDS = frozenset({"serve", "bench", "start", "launch", "run", "run-batch", "openai", "collect-env", "profile"})
_FLAGS = frozenset(
    {
        *(
            "--allow-run-as-root",
            "--oversubscribe",
            "--standalone",
            "--no-python",
            "--tag-output",
            "--kill-on-bad-exit",
        ),
        *("--label", "--unbuffered", "--foreground", "--localalloc", "--enforce-eager", "--"),
        *("-l", "-u", "-B", "-I", "-E", "-s", "-S", "-O", "-OO", "-i", "-g"),
    }
)
_SHORT = 2
"""Letters of an option that programs use each for something else (`-m`, `-n`): only numbers are settings there."""
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:-dbg|t)?")
_OPTION = re.compile(r"--?[A-Za-z][\w.-]{0,80}")
_NAME = re.compile(r"[A-Za-z_][\w.+:@-]{0,127}")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)", re.DOTALL)
_NAME_OF_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9]{0,30}(?:_[A-Za-z0-9]{0,30}){1,12}|[A-Z]{1,16}")
"""As people name variables: words with underscores between, or one word. The padding of base64 is a `=`, too."""
_TITLE = re.compile(r"(?:VLLM|sglang|ray|tensorrt_llm|LMDeploy)::[\w .:(),#-]{1,120}")
_SCRIPT = (".py", ".pyc", ".pyz", ".sh")


def allowed_command(argv: Sequence[str]) -> list[str]:
    """`argv` as it may be written down: as many words, masked where nothing says that they are settings."""
    words = list(argv[:MAX_ARGUMENTS])
    shown = [_clean(word) for word in _program(words)] if words else []
    return shown + ([f"... ({len(argv) - MAX_ARGUMENTS} more)"] if len(argv) > MAX_ARGUMENTS else [])


def _program(words: list[str]) -> list[str]:
    """A program and its arguments; launchers hold another program's."""
    title = words[0].rstrip("\0 ")
    if _TITLE.fullmatch(title):  # a title that the process gave itself; what follows is what it wrote over
        return [title, *(MASKED if word else word for word in words[1:])]
    base = PurePosixPath(words[0]).name
    if not _NAME.fullmatch(base) or looks_secret(base):
        return [MASKED] * len(words)
    program = words[0] if _is_path(words[0]) else base
    rest = words[1:]
    if _PYTHON.fullmatch(base):
        return [program, *_interpreter(rest)]
    if base in _SHELLS:
        return [program, *_shell(rest)]
    if base in _LAUNCHERS:
        return [program, *_launcher(rest)]
    return [program, *_arguments(rest, subcommand=base in _ENGINES)]


def _interpreter(words: list[str]) -> list[str]:
    """Python's own options, then a script, a module or code."""
    for at, word in enumerate(words):
        if word == "-c":
            return [*words[: at + 1], *([MASKED] * len(words[at + 1 :]))]
        if word == "-m" and at + 1 < len(words):
            module = words[at + 1] if _NAME.fullmatch(words[at + 1]) and not looks_secret(words[at + 1]) else MASKED
            rest = words[at + 2 :]
            if module in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
                return [*words[: at + 1], module, *_launcher(rest)]
            return [*words[: at + 1], module, *_arguments(rest, subcommand=True)]
        if word in _FLAGS:
            continue
        if word in ("-W", "-X"):
            return [*words[: at + 1], *([MASKED] if words[at + 1 :] else []), *_interpreter(words[at + 2 :])]
        if word.startswith("-"):
            return [*words[:at], _masked_option(word), *_interpreter(words[at + 1 :])]
        rest = words[at + 1 :]
        if PurePosixPath(word).name in _LAUNCHERS | _ENGINES:
            return [*words[:at], *_program(words[at:])]
        return [*words[:at], word if _is_script(word) else MASKED, *_arguments(rest)]
    return list(words)


def _shell(words: list[str]) -> list[str]:
    """A script keeps its name; code and arguments go."""
    shown: list[str] = []
    for at, word in enumerate(words):
        if word.startswith("-"):
            shown.append(word if re.fullmatch(r"-[a-z]{1,6}|--[a-z-]{1,20}", word) else MASKED)
            continue
        script = (
            word if _is_script(word) and not any("c" in flag for flag in words[:at] if flag[:2] != "--") else MASKED
        )
        return [*shown, script, *([MASKED] * len(words[at + 1 :]))]
    return shown


def _launcher(words: list[str]) -> list[str]:
    """A launcher's own options, then the program that it starts."""
    shown: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word.startswith("-"):
            taken = 1 if word in _FLAGS or "=" in word or at + 1 == len(words) or words[at + 1].startswith("-") else 2
            if word == "-m" and at + 1 < len(words):  # torchrun -m module
                return [*shown, *_interpreter(words[at:])]
            shown += _arguments(words[at : at + taken])
            at += taken
            continue
        if _ASSIGNMENT.fullmatch(word):
            shown.append(_variable(word))
        elif _starts_program(word):
            return [*shown, *_program(words[at:])]
        else:
            shown.append(MASKED)
        at += 1
    return shown


def _arguments(words: list[str], *, subcommand: bool = False) -> list[str]:
    """Options and positional arguments of a program."""
    shown: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if subcommand and at < 2 and word in _SUBCOMMANDS:
            shown.append(word)
            at += 1
            continue
        option, equals, value = word.partition("=")
        if not _OPTION.fullmatch(option) or (word.startswith("-") and not equals and looks_secret(word)):
            shown.append(word if word in ("-", "--") else _variable(word) if word[:1] != "-" else MASKED)
            at += 1
            continue
        if equals:
            shown.append(f"{option}={_value(option, value)}" if _is_option(option) else _masked_option(word))
            at += 1
            continue
        if not _is_option(word):
            shown.append(_masked_option(word))
            at += 1
            continue
        shown.append(word)
        at += 1
        while at < len(words) and not _begins_option(words[at]):  # a list: --cuda-graph-bs 1 2 4
            first = words[at - 1] == word
            listed = first or re.fullmatch(r"[\d.,-]{1,24}", words[at])  # what follows a value may be positional
            shown.append(_variable(words[at]) if word in _VARIABLES else _value(word, words[at]) if listed else MASKED)
            at += 1
    return shown


def _is_option(option: str) -> bool:
    """`-p` may be glued to its value (`-psecret`), `--name` is a name."""
    return (
        option.startswith("--")
        or len(option) == 2
        or option in _SHORT_WITH_VALUE
        or option in _VARIABLES
        or option in _FLAGS
    )


def _masked_option(word: str) -> str:
    return f"{word[:2]}{MASKED}" if re.match(r"-[A-Za-z]", word) else MASKED


def _begins_option(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-\d+(?:\.\d+)?", word)


def _value(option: str, value: str) -> str:
    """The value of an option, where it may be shown."""
    name = option.lstrip("-")
    known = name in VALUES or name.replace("_", "-") in VALUES
    if len(name) <= _SHORT and not re.fullmatch(r"[\d.,:-]{1,24}", value):
        return MASKED if value else value
    if not known or _long_or_code(value) or looks_secret(value):
        return MASKED if value else value
    if names_secret(name) and not re.fullmatch(r"[\d.,]{1,12}", value):
        return MASKED
    return environment.without_userinfo(value)


def _long_or_code(value: str) -> bool:
    return len(value) > MAX_VALUE or value.lstrip()[:1] in ("{", "[", "<") or "\n" in value


def _variable(word: str) -> str:
    """`NAME=value` by the rules of the environment; anything else is a positional argument."""
    match = _ASSIGNMENT.fullmatch(word)
    if match is None:
        return MASKED if word else word
    name, value = match.groups()
    if environment.is_allowed(name):
        return f"{name}={environment.allowed({name: value})[name]}"
    named = _NAME_OF_VARIABLE.fullmatch(name) and value.strip("=") and not looks_secret(name)
    return f"{name}={MASKED}" if named else MASKED


def _starts_program(word: str) -> bool:
    base = PurePosixPath(word).name
    known = base in _LAUNCHERS | _ENGINES | _SHELLS or _PYTHON.fullmatch(base)
    return bool(known) or _is_script(word)


def _is_script(word: str) -> bool:
    return (word.endswith(_SCRIPT) and _is_path(word)) or PurePosixPath(word).name in _ENGINES


def _is_path(word: str) -> bool:
    return (
        word.isprintable()
        and len(word) <= MAX_VALUE
        and "=" not in word
        and "://" not in word
        and not looks_secret(word)
    )


def _clean(word: str) -> str:
    clean = scrub_secrets(word.encode("utf-8", "replace")).decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "?" for character in clean)
