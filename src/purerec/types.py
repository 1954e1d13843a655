"""Array types, named once. Shapes are documented where the arrays are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
State = dict[str, Array]
"""Arrays by name: parameters, or the full state that training continues from."""
