"""Hooks are other people's programs and servers: whatever they do becomes an ending with a reason, by a deadline."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stops import Server, lines, notice, says

from rankmuster.watch.config import CommandHook, Hook, WatchConfig, WebhookHook
from rankmuster.watch.respond.hooks import call, name_of, step_of
from rankmuster.watch.respond.outcome import OFF, Ended, StepEnding, StopOutcome
from rankmuster.watch.respond.steps import Means
from rankmuster.watch.respond.webhook import Job, NotPosted, post


def called(hook: Hook, folder: Path) -> Ended:
    means = Means(WatchConfig(), time.monotonic, time.time, lambda: False)
    outcome = StopOutcome(notice(reason="no token; password=hunter2"), 1, folder, OFF, OFF)
    return call(means, hook, outcome)


@pytest.mark.parametrize(
    ("code", "ending", "words"),
    [
        ("import sys; sys.exit(3)", StepEnding.FAILED, "exit status 3"),
        ("import sys; sys.exit('no such queue')", StepEnding.FAILED, "no such queue"),
        ("import os; os.kill(os.getpid(), 9)", StepEnding.FAILED, "signal 9"),
        ("pass", StepEnding.DONE, ""),
        ("import sys; sys.stdout.write('x' * (16 << 20))", StepEnding.DONE, ""),
        ("import sys; sys.stdin.close(); sys.stdout.buffer.write(bytes(range(256)))", StepEnding.DONE, ""),
    ],
)
def test_how_a_command_ends_is_told(tmp_path: Path, code: str, ending: StepEnding, words: str) -> None:
    ended = called(says(code), tmp_path)
    assert ended.ending is ending, ended
    assert words in ended.note
    assert (tmp_path / "steps.log").stat().st_size <= 256 << 10


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    ended = called(CommandHook(command=("/nowhere/page-me", "--token", "s3cr3t")), tmp_path)
    assert ended.text == "failed: page-me: it could not be started (No such file or directory)"
    assert "s3cr3t" not in (tmp_path / "steps.log").read_text()
    (tmp_path / "plain").write_text("no program")
    assert "could not be started" in called(CommandHook(command=(str(tmp_path / "plain"),)), tmp_path).note
    assert "could not be started" in called(CommandHook(command=("a\0b",)), tmp_path).note


def test_a_command_that_hangs_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(60)"
    )
    began = time.monotonic()
    ended = called(says(code, 0.5, str(tmp_path / "pid")), tmp_path)
    assert time.monotonic() - began < 15
    assert ended.ending is StepEnding.TIMED_OUT
    assert "had not ended within" in ended.text
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 10
    while _lives(pid):
        assert time.monotonic() < end
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_a_command_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    end = time.monotonic() + 20\n"
        "    while time.monotonic() < end and not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
        "    os._exit(0)\n"
    )
    began = time.monotonic()
    assert called(says(code, 20.0, str(tmp_path / "go")), tmp_path).ending is StepEnding.DONE
    assert time.monotonic() - began < 10
    (tmp_path / "go").write_text("")


def test_a_command_gets_the_whole_stop_and_no_secret_is_logged(tmp_path: Path) -> None:
    code = "import sys; text = sys.stdin.read(); print(text); open(sys.argv[1], 'w').write(text)"
    assert called(says(code, 20.0, str(tmp_path / "told")), tmp_path).ending is StepEnding.DONE
    [told] = lines(tmp_path / "told")
    assert told["watch"]["reason"] == "no token; password=hunter2"
    assert "hunter2" not in (tmp_path / "steps.log").read_text()


@pytest.mark.parametrize(
    ("statuses", "ending", "requests", "words"),
    [
        ([204], StepEnding.DONE, 1, ""),
        ([503, 200], StepEnding.DONE, 2, ""),
        ([500], StepEnding.FAILED, 2, "status 500 (2 attempts)"),
        ([404, 200], StepEnding.FAILED, 1, "status 404"),
        ([302, 200], StepEnding.FAILED, 1, "status 302"),
    ],
)
def test_a_server_is_asked_again_only_where_that_helps(
    tmp_path: Path, statuses: list[int], ending: StepEnding, requests: int, words: str
) -> None:
    with Server(statuses, location="/elsewhere") as server:
        ended = called(WebhookHook(url=server.url, attempts=2), tmp_path)
        assert ended.ending is ending, ended
        assert words in ended.note
        assert len(server.seen) == requests


@pytest.mark.parametrize(("status", "again"), [(429, True), (500, True), (503, True), (400, False), (401, False)])
def test_which_statuses_ask_for_another_attempt(status: int, again: bool) -> None:
    with Server([status]) as server, pytest.raises(NotPosted) as refused:
        post(Job(server.url, {}, b"{}", 1, 5.0))
    assert refused.value.again is again


def test_a_redirect_is_followed_on_the_same_server_only(tmp_path: Path) -> None:
    with Server([200]) as other, Server([307, 200], location="/next") as server:
        assert called(WebhookHook(url=server.url), tmp_path).ending is StepEnding.DONE
        assert [path for path, _, _ in server.seen] == ["/hook/s3cr3tpath", "/next"]
        assert server.seen[0][2] == server.seen[1][2] != b""
        with Server([307], location=other.url) as leads_away:
            ended = called(WebhookHook(url=leads_away.url), tmp_path)
        assert "another server" in ended.note
        assert other.seen == []


def test_nobody_listens_is_tried_again_and_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/s3cr3t"
        ended = called(WebhookHook(url=url, attempts=2), tmp_path)
    assert ended.ending is StepEnding.FAILED
    assert "no connection could be made (Connection refused) (2 attempts)" in ended.note
    assert "s3cr3t" not in ended.note


def test_a_server_that_never_answers_is_asked_once(tmp_path: Path) -> None:
    hang = threading.Event()
    with Server([200], hang=hang) as server:
        ended = called(WebhookHook(url=server.url, attempts=3, seconds=0.5), tmp_path)
        assert ended.ending is StepEnding.FAILED
        assert "perhaps it was taken" in ended.note
        assert len(server.seen) == 1
        hang.set()


def test_headers_come_from_a_file_and_are_never_told(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("# for the pager\nAuthorization: Bearer s3cr3t-t0ken\n\nX-Team: serving\n")
    with Server([500]) as server:
        ended = called(WebhookHook(url=server.url, attempts=1, header_file=headers), tmp_path)
        assert server.seen[0][1]["Authorization"] == "Bearer s3cr3t-t0ken"
        assert server.seen[0][1]["X-Team"] == "serving"
    assert "s3cr3t" not in ended.note + (tmp_path / "steps.log").read_text()


@pytest.mark.parametrize(
    "content", ["Authorization s3cr3t", "A: b\nX\x01Y: s3cr3t", "A: \x00s3cr3t", ": s3cr3t", "A: sé"]
)
def test_a_file_of_headers_that_holds_something_else_is_refused(tmp_path: Path, content: str) -> None:
    headers = tmp_path / "headers"
    headers.write_text(content)
    ended = called(WebhookHook(url="http://127.0.0.1:9/", header_file=headers), tmp_path)
    assert "is no header" in ended.note
    assert "s3cr3t" not in ended.note


def test_a_file_of_headers_that_is_none_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge").write_text("A: b\n" * 20_000)
    for name, words in (("pipe", "no regular file"), ("huge", "more than 64 KiB"), ("none", "No such file")):
        ended = called(WebhookHook(url="http://127.0.0.1:9/", header_file=tmp_path / name), tmp_path)
        assert words in ended.note, ended


@pytest.mark.parametrize(
    "url", ["ftp://x/", "no url", "http://[::1", "http://user:s3cr3t@127.0.0.1/", "http://h:99999/"]
)
def test_an_address_that_cannot_be_used_is_told(tmp_path: Path, url: str) -> None:
    ended = called(WebhookHook(url=url), tmp_path)
    assert ended.ending is StepEnding.FAILED
    assert "s3cr3t" not in ended.note


def test_a_hook_is_the_same_wherever_it_stands_and_its_name_holds_no_secret() -> None:
    hook = WebhookHook(url="https://hooks.example.org/services/T0/s3cr3t?key=s3cr3t")
    assert name_of(hook) == "https://hooks.example.org"
    assert step_of(hook) == step_of(WebhookHook(url=hook.url, attempts=9))
    assert step_of(hook) != step_of(WebhookHook(url=hook.url + "x"))
    assert "s3cr3t" not in step_of(hook)
    assert name_of(CommandHook(command=("/usr/bin/page", "s3cr3t"))) == "page"
