"""Counters for Prometheus in a small shared file: one row per worker and one for the supervisor.

Each process only writes to its own row, and any worker can report the sums.
"""

from __future__ import annotations

import bisect
import mmap
import os
import tempfile
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from purerec import __version__
from purerec.serving.model.loaded_model import Loaded

ROUTES = (
    "/v1/recommend",
    "/v1/users/{id}/recommendations",
    "/v1/users",
    "/v1/items/{id}/similar",
    "/v1/items",
    "/v1/explain",
    "/v1/model",
    "/v1/reload",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/",
    "/static/{name}",
    "unparsed",
    "other",
)
"""unparsed: input that did not become a request; other: addresses without a route."""
STATUSES = (200, 204, 304, 400, 401, 403, 404, 405, 408, 409, 413, 421, 422, 431, 500, 503, 0)
"""0: any other."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, in seconds."""

_ROUTE = {name: n for n, name in enumerate(ROUTES)}
_STATUS = {code: n for n, code in enumerate(STATUSES)}
_N_COUNTS = len(ROUTES) * len(STATUSES)
_N_TIMES = len(ROUTES) * (len(BUCKETS) + 1)
_SUMS = _N_COUNTS + _N_TIMES
_GAUGES = _SUMS + len(ROUTES)
IN_FLIGHT, RELOADED, RELOAD_REFUSED = (_GAUGES + n for n in range(3))
_WIDTH = _GAUGES + 3


def shared_file(workers: int) -> int:
    """A descriptor of an unnamed file with room for the counters of all workers."""
    with tempfile.TemporaryFile() as file:
        file.truncate((workers + 1) * _WIDTH * 8)
        return os.dup(file.fileno())


class Metrics:
    """The counters of one process. Only its event loop writes to its row; reading sums over the rows."""

    def __init__(self, fd: int, workers: int, row: int) -> None:
        pages = mmap.mmap(fd, (workers + 1) * _WIDTH * 8)
        self._all: npt.NDArray[np.float64] = np.frombuffer(pages, dtype=np.float64).reshape(workers + 1, _WIDTH)
        # For single numbers, a memoryview is several times faster than an array.
        self._own = memoryview(pages).cast("d")[row * _WIDTH : (row + 1) * _WIDTH]
        self._own[IN_FLIGHT] = 0.0  # left by an earlier worker

    def add(self, place: int, amount: float = 1.0) -> None:
        self._own[place] += amount

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        at = _ROUTE.get(route, len(ROUTES) - 1)
        own = self._own
        own[at * len(STATUSES) + _STATUS.get(status, len(STATUSES) - 1)] += 1.0
        own[_N_COUNTS + at * (len(BUCKETS) + 1) + bisect.bisect_left(BUCKETS, seconds)] += 1.0
        own[_SUMS + at] += seconds

    def text(self, loaded: Loaded | None, since: float) -> str:
        """All counters in the text format of Prometheus."""
        total = self._all.sum(axis=0)
        counts = total[:_N_COUNTS].reshape(len(ROUTES), len(STATUSES))
        times = total[_N_COUNTS:_SUMS].reshape(len(ROUTES), len(BUCKETS) + 1)
        lines = [*_head("purerec_requests_total", "counter", "Requests by route and status.")]
        for route, status in zip(*np.nonzero(counts), strict=True):
            code = STATUSES[status] or "other"
            lines.append(
                f'purerec_requests_total{{route="{ROUTES[route]}",status="{code}"}} {counts[route, status]:.0f}'
            )
        name = "purerec_request_seconds"
        lines += _head(name, "histogram", "Time from the head of a request to the end of its answer.")
        for at in np.flatnonzero(times.sum(axis=1)):
            route = ROUTES[at]
            cumulated = np.cumsum(times[at])
            for bound, count in zip([*map(str, BUCKETS), "+Inf"], cumulated, strict=True):
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {count:.0f}')
            lines.append(f'{name}_sum{{route="{route}"}} {total[_SUMS + at]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {cumulated[-1]:.0f}')
        lines += _head("purerec_requests_in_flight", "gauge", "Requests that are being answered.")
        lines.append(f"purerec_requests_in_flight {total[IN_FLIGHT]:.0f}")
        lines += _head("purerec_reloads_total", "counter", "Attempts to swap the model.")
        lines.append(f'purerec_reloads_total{{result="done"}} {total[RELOADED]:.0f}')
        lines.append(f'purerec_reloads_total{{result="refused"}} {total[RELOAD_REFUSED]:.0f}')
        lines += _head("purerec_workers", "gauge", "Processes that answer.")
        lines.append(f"purerec_workers {len(self._all) - 1}")
        if loaded is not None:
            lines += _head("purerec_model_info", "gauge", "The model of the worker that was asked.")
            lines.append(
                f'purerec_model_info{{model="{loaded.model.name}",version="{loaded.version}",'
                f'purerec="{__version__}"}} 1'
            )
            lines += _head("purerec_model_loaded_seconds", "gauge", "When it was loaded, since 1970.")
            lines.append(f"purerec_model_loaded_seconds {since:.3f}")
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> Iterable[str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
