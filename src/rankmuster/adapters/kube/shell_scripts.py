"""What is run in a container that has nothing but a shell and `cat`: it reads, and changes nothing.

Each script prints records, each behind a line that begins with a boundary nobody can guess: `--BOUNDARY NAME`. So what
came before a script hung or was killed is whole, and binary files need no encoding. States of processes come first:
`cmdline` and `environ` of one that is stuck in a driver do not let themselves be read, and cost `timeout` its time or
the script its end. Values from the pod are arguments, never part of a script. They are short: they travel in a URL.
"""

from __future__ import annotations

import secrets

SHELL = ("sh", "-c")

_SAY = (
    "B=$1; T=; timeout 2 true 2>/dev/null && T='timeout 2'; "
    'say() { printf "\\n--%s %s\\n" "$B" "$1"; }; '
    'rd() { say "$1"; $T cat "$2" 2>/dev/null; }; '
)

PROCESSES = (
    _SAY + "say self; echo $$; "
    "for f in stat version sys/kernel/hostname; do rd proc/$f /proc/$f; done; "
    'one() { l=; { IFS= read -r l <"$2"; } 2>/dev/null; say "$1"; printf "%s" "$l"; }; '
    "look() { for p in /proc/[0-9]*; do i=$1/${p#/proc/}; one $i/stat $p/stat; one $i/wchan $p/wchan; "
    "say $i/status; cat $p/status 2>/dev/null; done; }; look a; "
    "for p in /proc/[0-9]*; do i=a/${p#/proc/}; say $i/cgroup; cat $p/cgroup 2>/dev/null; "
    "rd $i/cmdline $p/cmdline; rd $i/environ $p/environ; done; "
    "for f in net/fib_trie net/if_inet6; do rd a/1/$f /proc/self/$f; done; "
    'sleep "$2" 2>/dev/null; say second; look b; say end'
)
"""Arguments: boundary, seconds between two looks. Records: `a/PID/FILE`, `b/PID/FILE`, `proc/FILE`. Lines are read by
the shell itself where they are single ones: each `cat` is a process more."""

FILES = (
    _SAY + 'M=$2 G=$3; shift 3; C=cat; tail -c 1 /dev/null 2>/dev/null && C="tail -c $M"; '
    'for w in "$@"; do for f in "$w"$G; do [ -f "$f" ] && [ -r "$f" ] && { say "file $f"; $T $C "$f" 2>/dev/null; }; '
    "done; done; say end"
)
"""Arguments: boundary, bytes of each file's end, what may follow as a pattern, and paths. Records: `file PATH`."""

RANKS = "[0-9]*"
"""What follows the prefix of a dump: the rank, and nothing that is no number."""

MAPS = (
    _SAY + 'shift; for p in "$@"; do say "a/$p/maps"; '
    "$T grep -e libnccl -e libtorch_cuda -e '/site-packages/' \"/proc/$p/maps\" 2>/dev/null; "
    "done; say end"
)
"""Arguments: boundary, pids. Records: `a/PID/maps`, of which only the lines that tell of NCCL and of packages."""

SMI = (
    _SAY + "S=; timeout 2 true 2>/dev/null && S='timeout 8'; "
    'for a in "-L" "topo -m" "-q" "nvlink -s"; do say "smi $a"; $S nvidia-smi $a 2>&1; done; '
    "rd proc/driver/nvidia/version /proc/driver/nvidia/version; say end"
)
"""Argument: boundary. Records: `smi ARGUMENTS`."""

RAS_PYTHON = """
import socket,sys,time
h,p,t=sys.argv[1],int(sys.argv[2]),float(sys.argv[3])
s=socket.create_connection((h,p),2);s.settimeout(2);f=s.makefile("rb")
for q in ("CLIENT PROTOCOL 2","TIMEOUT %d"%max(int(t/2),1)):
 s.sendall(q.encode()+b"\\n");sys.stdout.write(f.readline(1024).decode("latin-1"));sys.stdout.flush()
s.sendall(b"VERBOSE STATUS\\n");s.settimeout(t)
while 1:
 d=f.read1(65536)
 if not d:break
 sys.stdout.buffer.write(d);sys.stdout.buffer.flush()
"""
"""Arguments: host, port, seconds. The connection is not half-closed, and nothing is sent behind the last request:
either makes the job's RAS thread spin (`collect.ras.client`)."""

RAS_BASH = (
    'exec 3<>"/dev/tcp/$1/$2" || exit 1; printf "CLIENT PROTOCOL 2\\n" >&3; read -r -t 2 a <&3; echo "$a"; '
    'printf "TIMEOUT %d\\n" "$3" >&3; read -r -t 2 a <&3; echo "$a"; printf "VERBOSE STATUS\\n" >&3; '
    'while IFS= read -r -t "$3" a <&3; do printf "%s\\n" "$a"; done'
)

RAS_NC = (
    '{ printf "CLIENT PROTOCOL 2\\n"; sleep 1; printf "TIMEOUT %d\\n" "$3"; sleep 1; printf "VERBOSE STATUS\\n"; '
    'sleep "$3"; } | nc "$1" "$2"'
)
"""`nc` gets a standard input that stays open, so that it does not half-close the connection."""


def boundary() -> str:
    """A new one: no file that is read can hold it."""
    return secrets.token_hex(16)
