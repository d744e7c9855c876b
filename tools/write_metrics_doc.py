"""Writes docs/metrics.md from the declared metrics, and from the alert rules that use them.

    python tools/write_metrics_doc.py

A test says when it is out of date.
"""

from __future__ import annotations

import pathlib
import re

import yaml

from rankmuster.metrics import admission_drift, incident, kube
from rankmuster.metrics.declared import INSTANCE, Kind, Label, Metric
from rankmuster.metrics.registry import FOLDED
from rankmuster.watch.export.metrics import PARTS

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "rankmuster-alerts.yml"
BASELINE_RULES = ROOT / "deploy" / "prometheus" / "rankmuster-baseline-alerts.yml"

HEAD = """# Metrics and alerts

Written by `python tools/write_metrics_doc.py` from the code; do not edit it by hand.

`rankmuster watch` serves these for Prometheus where its configuration says `listen: HOST:PORT` (without a host on the
loopback; there is no TLS and no password, so open it to no more than Prometheus). It needs
`pip install 'rankmuster[prometheus]'`. Beside them:

- [deploy/prometheus/rankmuster-alerts.yml](../deploy/prometheus/rankmuster-alerts.yml): alert rules, tested with
  `promtool test rules` together with controls in which none may fire;
- [deploy/prometheus/rankmuster-baseline-alerts.yml](../deploy/prometheus/rankmuster-baseline-alerts.yml): those for
  admission and drift, tested alike;
- [deploy/grafana/rankmuster.json](../deploy/grafana/rankmuster.json): a dashboard to import.

```yaml
scrape_configs:
  - job_name: rankmuster-watch
    scrape_interval: 15s
    static_configs:
      - targets: ["node-1:9464"]
rule_files: [rankmuster-alerts.yml, rankmuster-baseline-alerts.yml]
```

`rankmuster incident serve` serves those of incidents in the same way (`listen` in its own configuration). They are of
the whole journal: services of several nodes with one journal say the same, and the rules fold them. Its counters begin
at zero with the service. Give it a scrape job of its own without `rankmuster` in its name, which the alerts on the
watch itself go by:

```yaml
  - job_name: incident-serve
    static_configs:
      - targets: ["node-1:9465"]
```

`rankmuster kube controller` serves those of incidents and of the cluster (`listen` in its settings); the one that leads
does, the others say that they do not.

Admission and drift are commands that end. With `--metrics FILE` they write theirs for the textfile collector of
node_exporter (`--collector.textfile.directory`), whole or not at all; the file's name has to end in `.prom`:

```
rankmuster drift --all --metrics /var/lib/node_exporter/rankmuster-drift.prom
```

An instance of inference is the label `llm_instance`, since Prometheus calls the address that it scrapes `instance`. At
most 64 are told apart on one node. An instance over several nodes is shown by the watch of each: fold them, as the
rules do. No label is a pid or a sentence. A label's value that is none of those listed, or one more than may be,
becomes `other` and is counted in `rankmuster_labels_folded_total`. When an instance has gone its gauges go with it, and
its counters a quarter of an hour later. A value that is not known is absent, not 0.

"""


def label(one: Label) -> str:
    """One label with what it may be."""
    if one == INSTANCE:
        return f"`{one.name}`"
    values = ", ".join(f"`{value}`" for value in one.values) if one.values else f"at most {one.most} values"
    return f"`{one.name}`: {one.text} ({values})"


def metric(one: Metric, alerts: list[str]) -> str:
    """One metric as a section of a list."""
    lines = [f"### `{one.name}`", "", f"{one.kind.value}. {one.text}", ""]
    lines += [f"- {label(each)}" for each in one.labels]
    if one.kind is Kind.HISTOGRAM:
        lines.append(f"- buckets: {', '.join(f'{bound:g}' for bound in one.buckets)}")
    if alerts:
        lines.append(f"- alerts: {', '.join(f'[{name}](#alerts)' for name in alerts)}")
    return "\n".join(lines).rstrip() + "\n\n"


def rules() -> list[dict[str, object]]:
    """All rules, recordings and alerts, in their order."""
    groups = [
        group
        for path in (RULES, BASELINE_RULES)
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    ]
    return [rule for group in groups for rule in group["rules"]]


def names_in(expression: str) -> set[str]:
    """Metrics and recorded series of an expression."""
    return set(re.findall(r"\b(?:rankmuster_[a-z0-9_]+|[a-z_]+:[a-z_]+:[a-z]+)", expression))


def users(every: list[dict[str, object]]) -> dict[str, list[str]]:
    """Metric -> alerts whose expressions use it, themselves or through recorded series."""
    recorded: dict[str, set[str]] = {}
    found: dict[str, list[str]] = {}
    for rule in every:
        names: set[str] = set()
        for name in names_in(str(rule["expr"])):
            names |= recorded.get(name, {name})
        if "record" in rule:
            recorded[str(rule["record"])] = names
            continue
        for name in names:
            found.setdefault(re.sub(r"_(?:bucket|sum|count)$", "", name), []).append(str(rule["alert"]))
    return found


def page() -> str:
    """The whole page."""
    every = rules()
    used = users(every)
    parts = [HEAD]
    of_incidents, of_cluster = ("Incidents", incident.ALL), ("The controller of a cluster", kube.ALL)
    for title, metrics in (*PARTS, of_incidents, of_cluster, *admission_drift.PARTS, ("The registry", (FOLDED,))):
        parts.append(f"## {title}\n\n")
        parts += [metric(one, used.get(one.name, [])) for one in metrics]
    parts.append("## Alerts\n\n| alert | severity | for | says |\n|---|---|---|---|\n")
    for rule in every:
        if "alert" in rule:
            labels, annotations = rule["labels"], rule["annotations"]
            assert isinstance(labels, dict)
            assert isinstance(annotations, dict)
            says = re.sub(r"{{ \$labels\.(\w+) }}", r"*\1*", annotations["summary"])
            parts.append(f"| {rule['alert']} | {labels['severity']} | {rule['for']} | {says} |\n")
    return "".join(parts)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
