"""Random numbers inside kernels: splitmix64 in counter mode.

Number k of a key is a pure function of (key, k), so results depend neither on the number of threads nor on how draws
are split into calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from purerec.jit.decorator import Scalar, intrinsic, kernel
from purerec.types import I32

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@kernel()
def splitmix64(key: Scalar, counter: Scalar) -> Scalar:
    """Number `counter` of the stream `key`: 64 random bits."""
    z = key + counter * _GAMMA
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@intrinsic
def mulhi(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of a * b: maps a random word `a` to range(b), uniformly to within b / 2^64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@kernel(inner=True)
def shuffle(order: I32, key: Scalar) -> None:
    """Fill `order` with 0, 1, ... in random order."""
    for k in range(order.size):
        order[k] = np.int32(k)
    for k in range(order.size - 1, 0, -1):
        other = np.int64(mulhi(splitmix64(key, np.uint64(k)), np.uint64(k + 1)))
        order[k], order[other] = order[other], order[k]
