"""How long vectors have become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def mean_norms(vectors: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Mean lengths of the rows of `user` and `item`, for the history of a fit and the check of divergence."""
    return {f"{side}_norm": float(np.linalg.norm(vectors[side], axis=1).mean()) for side in ("user", "item")}
