"""What met those who asked RAS, and what RAS itself found, is said; nobody is accused on it."""

from __future__ import annotations

import json

from build_evidence import HOST, T0, flat_pages, instance, pid, said, verdict_of

from rankmuster.evidence.blob import Blob


def probe(*met: str) -> Blob:
    attempts = [{"address": "127.0.0.1:28028", "met": each, "at": T0 + 10 + i} for i, each in enumerate(met)]
    document = {"schema": "rankmuster.ras-query/1", "asked_at": "localhost:28028", "attempts": attempts}
    return Blob("ras/probe.json", json.dumps(document).encode())


def test_a_connection_that_nobody_answered_is_a_thread_that_does_not_run() -> None:
    verdict = verdict_of([instance(), probe("silent", "silent", "ras"), *flat_pages(T0, 20, 500.0)])
    assert "accepted 2 connections and never answered them" in said(verdict)
    assert "1 attempt reached one that answers" in said(verdict)
    assert verdict.suspects == ()


def test_a_port_that_nobody_has_opened_says_nothing() -> None:
    verdict = verdict_of([instance(), probe("refused", "refused"), *flat_pages(T0, 20, 500.0)])
    assert "never answered" not in said(verdict)


def test_what_ras_found_itself_is_said() -> None:
    text = (
        "=== RAS Diagnostics ===\n"
        "n:1 NCCL DIAG [OK]   NVLink: 18 links per GPU, all active at consistent speed\n"
        "n:1 NCCL DIAG [INFO] ECC: uncorrected volatile errors on rank(s) {3} (N=1) (worst=2) across 4 ranks\n"
        "RAS diagnostics completed in 3.0 ms across 4 RAS peers\n"
    )
    verdict = verdict_of([instance(), Blob("ras/diagnostics-1.txt", text.encode()), *flat_pages(T0, 20, 500.0)])
    assert "ECC: uncorrected volatile errors on rank(s) {3}" in said(verdict)
    assert "all active" not in said(verdict)
    assert verdict.unread == ()


def test_events_of_other_jobs_are_left_out() -> None:
    event = {"timestamp": "2026-11-29 21:06:50", "group": "LIFECYCLE", "event": "PEER_DEAD", "details": ""}
    events = [event | {"peer": {"host": HOST, "pid": number}} for number in (pid(2), 99)]
    stream = Blob("ras/events-1.json", "\n".join(map(json.dumps, events)).encode())
    text = said(verdict_of([instance(), stream, *flat_pages(T0, 20, 500.0)]))
    assert "PEER_DEAD of rank 2" in text
    assert text.count("PEER_DEAD") == 1
