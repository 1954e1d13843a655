"""How the cost of a fit grows: PU-GMF on worlds with 1, 3 and 10 times the interactions, and users in proportion.

    python benchmarks/growth.py [--sizes 0.5,1.5,5] [--quick] [--json FILE]

Each size runs in its own process, since peak memory cannot be reset. d = 16, after a small fit, so that compiling is
not counted. `fit_mb` is what the fit added to the peak.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from world import in_own_processes, peak_mb

USERS_PER_MILLION = 20_000
ITEMS = 10_000


def measure(millions: float) -> dict[str, Any]:
    from purerec.data.synthetic.world import make_world
    from purerec.models.registry import make_model

    make_model("pugmf", epochs=1, dim=16).fit(make_world(users=50, items=50).observed)
    users = int(USERS_PER_MILLION * millions)
    log = make_world(users=users, items=ITEMS, interactions=int(millions * 1e6)).observed
    positives = log.positives
    before = peak_mb()
    model = make_model("pugmf", epochs=6, dim=16, batch_size=512, schedule="constant").fit(log)
    ends = [0.0, *(record.seconds for record in model.history.records)]
    return {
        "users": users,
        "items": ITEMS,
        "interactions": len(positives),
        # The best of six: noise on a shared machine only slows down.
        "epoch_s": round(min(b - a for a, b in pairwise(ends)), 3),
        "fit_mb": round(peak_mb() - before),
        "peak_mb": round(peak_mb()),
    }


if __name__ == "__main__":
    in_own_processes(__file__, __doc__, measure, "0.5,1.5,5")
