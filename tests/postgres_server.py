"""A PostgreSQL server of a test's own: Debian's package, a temporary folder, a Unix socket, gone afterwards.

`initdb` refuses to run as root; a test that does lets the server run as the user `postgres`, which the package made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"
PASSWORD = "pass:word/of@the-test"


@dataclass(frozen=True)
class Postgres:
    """A running server. `socket`: its folder; `binaries`: where psql and createdb are."""

    folder: Path
    binaries: Path

    def url(self, database: str, user: str = USER, password: str | None = None) -> str:
        """For History.open."""
        from urllib.parse import quote

        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}", "postgres")
        return name

    def execute(self, sql: str, database: str) -> str:
        """What psql prints, without headings."""
        command = [self.binaries / "psql", "-h", self.folder, "-U", USER, "-d", database, "-AtqX"]
        done = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "-c", sql],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"PGPASSWORD": PASSWORD},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def binaries() -> Path | None:
    """Debian keeps them out of the path, a folder per version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


@contextmanager
def server(fsync: bool = False) -> Iterator[Postgres]:
    """Runs one while the block does. Needs `binaries()`. `fsync`: as a server that has to survive a power cut."""
    place = binaries()
    assert place is not None
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"] if os.getuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="rm-pg-", dir="/tmp"))  # a socket's path may have 107 bytes only
    try:
        if as_user:
            shutil.chown(folder, USER, USER)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if as_user:
            shutil.chown(secret, USER, USER)
        data = folder / "data"
        _run([*as_user, place / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}"], folder)
        settings = f"-k {folder} -c listen_addresses= -c fsync={'on' if fsync else 'off'} -c max_connections=50"
        control = [*as_user, place / "pg_ctl", "-D", data]
        _run([*control, "-w", "-l", folder / "log", "-o", settings, "start"], folder)
        try:
            yield Postgres(folder, place)
        finally:
            _run([*control, "-m", "immediate", "-w", "stop"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str | Path], folder: Path) -> None:
    """pg_ctl's child keeps what it inherits open, so that nothing may be a pipe."""
    with (folder / "output").open("ab") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=120, cwd="/tmp")
    assert done.returncode == 0, (folder / "output").read_text(errors="replace")
