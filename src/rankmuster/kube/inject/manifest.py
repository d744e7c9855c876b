"""A whole stream of manifests with the sidecar in every engine's pod template. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.kube.inject.containers import any_gpus
from rankmuster.kube.inject.documents import Document, read, write
from rankmuster.kube.inject.incident_profile import Steady, steady_of
from rankmuster.kube.inject.pod import inject
from rankmuster.kube.inject.settings import InjectSettings
from rankmuster.kube.inject.templates import of, templates


@dataclass(frozen=True, slots=True)
class Injected:
    """`done`: templates that have the sidecar now. `left`: objects in which there was nothing to do."""

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]
    notes: tuple[str, ...]


def inject_text(text: str, name: str, settings: InjectSettings) -> Injected:
    """Raises documents.NotReadable, templates.NotInjectable; then nothing is made of any document."""
    documents = read(text, name)
    out: list[Document] = []
    profiles: list[Steady] = []
    done: list[str] = []
    left: list[str] = []
    notes: list[str] = []
    for document in documents:
        made, needed = _one(document, settings, notes)
        for steady in needed:
            if steady not in profiles:
                profiles.append(steady)
                # before the workload: what applies one after the other has it when the first pod is made
                out += _placed(steady, documents, settings)
        out.append(document)
        done += made
        if not made and document.value is not None:
            left.append(of(document.value))
    return Injected(write(out), tuple(done), tuple(left), tuple(notes))


def _one(document: Document, settings: InjectSettings, notes: list[str]) -> tuple[list[str], list[Steady]]:
    found = templates(document.value, settings.grouping)
    gpus = [any_gpus(template) for template in found]
    done: list[str] = []
    profiles: list[Steady] = []
    for index, template in enumerate(found):
        others = any(has for at, has in enumerate(gpus) if at != index)
        steady = steady_of(template, settings) if settings.incident_profile else None
        said = inject(template, settings, steady, others_have_gpus=others)
        if said is None:
            notes.append(f"{template.where}: no engine is in it, so it is left as it is")
            continue
        if steady is not None:
            profiles.append(steady)
        elif settings.incident_profile:
            notes.append(
                f"{template.where}: the controller has no instance of it, or none by a name that is written here: its "
                "profile is in env, and no start of it gets the incident's"
            )
        notes += said
        done.append(template.where)
    document.changed = document.changed or bool(done)
    return done, profiles


def _placed(steady: Steady, documents: list[Document], settings: InjectSettings) -> list[Document]:
    """A new document; none where the manifests have one of an earlier time, which is brought up to date."""
    value = steady.document(settings.version)
    there = next((one for one in documents if steady.is_it(one.value)), None)
    if there is None:
        return [Document("", value, changed=True)]
    if there.value != value:
        there.value, there.changed = value, True
    return []
