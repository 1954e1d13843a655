"""Merges evaluations of parts of the users into one of all users, with exactly the same numbers as a single run.

A user's values depend only on that user (and the seed), so they are the same in a part as in the whole. They are put
back in user order before averaging, so no sum depends on the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from purerec.errors import ConfigError, DataError
from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.users import mean_of

Evaluator = Callable[..., Evaluation]
"""`evaluate`, or a function with the same arguments that distributes parts to others"""


def put_together(parts: Sequence[Evaluation], n_users: int) -> Evaluation:
    """The evaluation of all `n_users` users, each of whom is in exactly one part."""
    if not parts:
        raise ConfigError("there are no parts to put together")
    first = parts[0]
    for number, part in enumerate(parts):
        for name in ("fingerprint", "model", "protocol", "on", "seed"):
            if getattr(part, name) != getattr(first, name) or list(part.metrics) != list(first.metrics):
                raise DataError(f"part {number} belongs to a different evaluation than part 0; measure it again")
    user_idx = np.concatenate([part.user_idx for part in parts])
    skipped = sum(part.n_users_skipped for part in parts)
    if len(np.unique(user_idx)) != len(user_idx) or len(user_idx) + skipped != n_users:
        raise DataError(
            f"the parts have {len(user_idx) + skipped:,} users, and there are {n_users:,}; each must be in one part"
        )
    order = np.argsort(user_idx, kind="stable")
    per_user = {name: np.concatenate([part.per_user[name] for part in parts])[order] for name in first.per_user}
    return replace(
        first,
        metrics={name: mean_of(per_user[name]) for name in first.metrics},
        per_user=per_user,
        user_idx=user_idx[order],
        n_users_skipped=skipped,
        seconds=sum(part.seconds for part in parts),
    )
