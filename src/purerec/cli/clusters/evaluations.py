"""`purerec evaluate --on ray`: evaluates users in parts, with exactly the same numbers as one process.

Each machine has one copy of the model and the data in memory, shared by all of its workers. Ray replaces a worker
that dies, and its part is redone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from purerec.cli.clusters.connecting import check_same, connected_to_ray, failures_of_ray, versions
from purerec.errors import ConfigError

if TYPE_CHECKING:
    from purerec.data.splits import Split
    from purerec.evaluation.choosing import MetricNames
    from purerec.evaluation.parts import Evaluator
    from purerec.evaluation.protocols import Evaluation


@contextmanager
def evaluating_on(address: str | None, metrics: MetricNames | None) -> Iterator[Evaluator]:
    """A function like `evaluate` that uses a cluster or, without an address, this process."""
    from purerec.evaluation.choosing import parse_all
    from purerec.evaluation.protocols import evaluate

    if address is None:
        yield evaluate
        return
    for metric in [] if metrics is None else parse_all(metrics):
        if metric.needs_lists:
            raise ConfigError(f"{metric.name} needs the lists of all users at once; leave it or --on out")
    with connected_to_ray(address, purpose="evaluation on a cluster") as cpus:
        yield partial(_evaluated, max(1, cpus))


def _evaluated(n_parts: int, model: Any, split: Split, **how: Any) -> Evaluation:
    import ray

    from purerec.evaluation.parts import put_together

    with failures_of_ray("run the command again"):
        shared, part = ray.put((model, split)), ray.remote(_part)
        # In a list: otherwise Ray would unpack it before the versions are compared.
        parts = ray.get([part.remote([shared], (n, n_parts), how, versions()) for n in range(n_parts)])
    return put_together(parts, split.train.n_users)


def _part(shared: list[Any], part: tuple[int, int], how: dict[str, Any], expected: str) -> Evaluation:
    check_same(expected)
    import ray

    from purerec.evaluation.protocols import evaluate

    model, split = ray.get(shared[0])
    return evaluate(model, split, part=part, threads=1, **how)
