"""Which metrics to report, and which of them decides."""

from __future__ import annotations

from collections.abc import Iterable

from purerec.data.catalog import CATALOG
from purerec.errors import ConfigError
from purerec.evaluation.metrics import DEFAULT_METRICS, Metric, parse, parse_of_ranks

MetricNames = str | Iterable[str]

_DECIDES = "P@5"


def parse_all(names: MetricNames) -> list[Metric]:
    """Several metrics, given as a list or as 'Recall@20,NDCG@20'; repeated names count once."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    stripped = [name.strip() if isinstance(name, str) else name for name in listed]
    metrics = list({m.name: m for m in (parse(name) for name in stripped if name != "")}.values())
    if not metrics:
        raise ConfigError("no metrics are given; leave `metrics` out for the default ones")
    return metrics


def check_protocol(metrics: Iterable[Metric], protocol: str) -> None:
    """Raise an error for list metrics if only a sample of the items is ranked."""
    for metric in metrics:
        if metric.needs_lists and protocol != "exact":
            raise ConfigError(
                f"{metric.name} needs lists of all items",
                "use protocol='exact'",
                command="use --protocol exact",
            )


def check_choice(metrics: MetricNames | None, metric: str | None, protocol: str) -> str | None:
    """Raise an error for wrong names before anything is read or fitted. Return the name of `metric` in results."""
    if metrics is not None:
        check_protocol(parse_all(metrics), protocol)
    return None if metric is None else parse_of_ranks(metric).name


def default_metrics(data: str) -> tuple[str, ...]:
    """The metrics reported by default for a data set of this name."""
    entry = CATALOG.get(data)
    return entry.metrics if entry is not None and entry.metrics else DEFAULT_METRICS


def deciding_metric(data: str, metrics: MetricNames | None = None) -> str:
    """The metric that decides between models and settings by default: the usual one if reported, else the first.

    The usual one is P@5, or the metric of published results on the data set.
    """
    entry = CATALOG.get(data)
    default = entry.metrics[0] if entry is not None and entry.metrics else _DECIDES
    reported = [default] if metrics is None else [m.name for m in parse_all(metrics) if not m.needs_lists]
    return default if default in reported or not reported else reported[0]
