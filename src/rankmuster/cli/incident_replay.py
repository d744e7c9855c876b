"""`rankmuster incident replay`: the decision again, from the saved evidence, beside the one that was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.incident_list import Form, Format
from rankmuster.cli.incident_named import SettingsFile, account_of, chosen, settings_of
from rankmuster.cli.incident_place import JournalPlace, missing, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.output import write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.model.incident import Decision, Opening
    from rankmuster.model.verdict import Verdict
    from rankmuster.report.incident_account import Account
    from rankmuster.store.journal import Journal


def replay(
    given: Annotated[
        str,
        typer.Argument(metavar="ID|BUNDLE", help="An incident, by id or instance; or a bundle, of an incident or not."),
    ],
    config: SettingsFile = None,
    journal: JournalPlace = "",
    form: Form = Format.TERMINAL,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Diagnose the evidence of an incident again and decide again, by the settings given, and compare with what was
    decided then. Nothing is touched. To see what other settings would have done, give them with --config.

    What the journal knows besides the evidence is taken as it was: what the watch said, an operator's approval, hosts
    that were suspected before, whether the group can be started elsewhere. Limits are not asked again. Evidence that is
    not what was saved then is said to be so.

    Exit status: 0 the same is decided, 1 something else is (each difference is said), 2 there is no decision to compare
    with, 3 the evidence is gone or cannot be read, or bad usage.
    """
    settings = settings_of(config)
    journal = journal or settings.journal or ""
    is_bundle = Path(given).exists()
    if is_bundle and missing(journal) is not None:
        return _answer(_decided_alone(Path(given), settings), None, None, form)
    with opened(journal, "replaying the decision") as store:
        if is_bundle:
            found = _of_bundle(store, Path(given))
            if found is None:
                return _answer(_decided_alone(Path(given), settings), None, None, form)
        else:
            found = account_of(store, chosen(store, given))
        again, verdict = _decided_again(store, found, settings, Path(given) if is_bundle else None)
        notes = _notes(found, Path(given) if is_bundle else None, with_settings=config is not None)
    return _answer((again, verdict), found.decision, found.id, form, notes)


def _notes(found: Account, bundle: Path | None, *, with_settings: bool) -> list[str]:
    """What has to be known of the answer: whose settings, and whether the evidence is what was saved then."""
    from rankmuster.report.incident_impact import saved

    notes = []
    if not with_settings:
        notes.append("by the settings that are built in; those of the runner are given with --config")
    for one in saved(found):
        path = Path(one.path) if bundle is None else bundle
        if one.digest and path.exists() and (wrong := _changed(path, one.digest)):
            notes.append(f"the evidence is not what was saved: {wrong}; rankmuster bundle verify {path}")
    return notes


def _changed(path: Path, digest: str) -> str:
    """What is wrong with a bundle whose manifest had that digest (`sha256:...`); empty where nothing is."""
    import hashlib

    from rankmuster.collect.bundle.contents import BundleUnreadable
    from rankmuster.collect.bundle.verify import verify

    try:
        found = verify(path)
        manifest = (path / "manifest.json").read_bytes() if path.is_dir() else None
    except (BundleUnreadable, OSError) as error:
        return str(error)
    if found.findings:
        first = found.findings[0]
        return f"{first.path}: {first.message}" + (f", {len(found.findings)} faults" if len(found.findings) > 1 else "")
    if manifest is not None and f"sha256:{hashlib.sha256(manifest).hexdigest()}" != digest:
        return "its manifest is another one than the journal knows"
    return ""


def _of_bundle(store: Journal, bundle: Path) -> Account | None:
    """The newest incident that saved this bundle."""
    from rankmuster.report.incident_impact import bundle_of

    for head in store.incidents():
        found = account_of(store, head)
        saved = bundle_of(found)
        if saved is not None and Path(saved).resolve() == bundle.resolve():
            return found
    return None


def _decided_again(
    store: Journal, found: Account, settings: IncidentConfig, bundle: Path | None
) -> tuple[Decision, Verdict | None]:
    from rankmuster.incident.decide import decide, settings_of

    if found.opening is None:
        raise CommandError(f"the opening of the incident {found.id} cannot be read, so that nothing follows from it")
    verdict = _verdict(found, bundle)
    with doing("deciding again"):
        from rankmuster.cli.incident_replay_facts import facts_of

        facts = facts_of(store, found, settings, verdict)
        return decide(verdict, found.opening, facts, settings_of(settings)), verdict


def _verdict(found: Account, bundle: Path | None) -> Verdict | None:
    """From the evidence; from the opening where it brought a verdict and nothing was collected."""
    from rankmuster.model.plain_json import NotPlain
    from rankmuster.model.verdict_json import verdict_from_plain
    from rankmuster.report.incident_impact import bundle_of

    brought = found.opening.verdict if found.opening is not None else None
    if brought is not None and bundle is None:  # the runbook did not diagnose then, and used it
        try:
            return verdict_from_plain(brought)
        except NotPlain as error:
            raise CommandError(f"the verdict that {found.id} was opened with cannot be read: {error}") from error
    path = bundle or (Path(saved) if (saved := bundle_of(found)) is not None else None)
    if path is None:
        return None
    if not path.exists():
        raise CommandError(
            f"the evidence of {found.id} lies at {path}, and there is nothing there on this host: copy it here, and "
            "give its path instead of the id"
        )
    return _diagnosed(path)


def _diagnosed(path: Path) -> Verdict:
    from rankmuster.cli.gc_off import gc_off
    from rankmuster.cli.slim_numpy import load_numpy

    with doing("loading the program"):
        load_numpy()
        from rankmuster.cli.reading import examined, read
    with gc_off():
        return examined(str(path), read(path)).diagnosis.verdict


def _decided_alone(bundle: Path, settings: IncidentConfig) -> tuple[Decision, Verdict | None]:
    """Of evidence that belongs to no incident here: as if it were opened for what the verdict says."""
    verdict = _diagnosed(bundle)
    with doing("deciding"):
        from rankmuster.incident.decide import Facts, decide, settings_of
        from rankmuster.incident.facts import rank_hosts

        facts = Facts(rank_hosts=rank_hosts(verdict))
        return decide(verdict, _opening(verdict), facts, settings_of(settings)), verdict


def _opening(verdict: Verdict) -> Opening:
    from rankmuster.model.fault import Progress
    from rankmuster.model.incident import OpenedBy, Opening

    return Opening(
        instance=verdict.instance or "unnamed",
        incarnation=verdict.incarnation,
        by=OpenedBy.SLOW if verdict.progress is Progress.SLOW else OpenedBy.STOPPED,
        progress=verdict.progress,
        at=verdict.window.end or 0.0,
    )


def _answer(
    made: tuple[Decision, Verdict | None],
    journaled: Decision | None,
    incident: str | None,
    form: Format,
    notes: Sequence[str] = (),
) -> int:
    from rankmuster.report.incident_compare import comparison, comparison_json, comparison_text

    decision, verdict = made
    if journaled is not None:
        from rankmuster.cli.incident_replay_facts import before_limits

        journaled = before_limits(journaled)
    compared = comparison(decision, journaled, verdict, incident)
    write_stdout(comparison_json(compared, notes) if form is Format.JSON else comparison_text(compared, notes))
    if journaled is None:
        return ExitStatus.UNDECIDED
    return ExitStatus.HEALTHY if compared.same else ExitStatus.FAULT
