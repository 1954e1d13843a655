"""Arrays in the form that kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def constant(array: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A contiguous, read-only view: one type for the compiler, whatever the caller's flags are."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
