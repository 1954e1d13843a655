"""The state of a cpu engine as named arrays: parameters, Adam's moments, counters and the keys of randomness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.engines.pure.cpu.memory import Memory, parameter_shapes
from purerec.errors import StoreError
from purerec.rng import key64
from purerec.types import State

COUNTERS = ("steps", "generator_steps", "epochs", "generator_epochs")
_STREAMS = ("shuffle", "draw", "item noise", "user noise")
_PARTS = ("", "/m", "/v")

Keys = npt.NDArray[np.uint64]


def stream_keys(seed: int) -> Keys:
    """(4,) a key for each of the streams of randomness of a fit."""
    return np.array([key64(seed, f"cpu {name}") for name in _STREAMS])


def pack_state(memory: Memory, counters: Mapping[str, int], keys: Keys) -> dict[str, npt.NDArray[np.generic]]:
    """Parameters by name, `name/m` and `name/v` for the moments, counters and keys, as copies."""
    state: dict[str, npt.NDArray[np.generic]] = {"keys": keys.copy()}
    for part, suffix in enumerate(_PARTS):
        state |= {f"{name}{suffix}": value for name, value in memory.read(part).items()}
    return state | {f"counter/{name}": np.array(counters[name], np.int64) for name in COUNTERS}


def unpack_state(state: State | Mapping[str, npt.NDArray[Any]], memory: Memory) -> tuple[dict[str, int], Keys]:
    """Write a state into memory; its counters and keys."""
    shapes = parameter_shapes(memory.n_users, memory.n_items, memory.settings)
    expected = {f"{name}{suffix}": shape for name, shape in shapes.items() for suffix in _PARTS}
    expected |= {f"counter/{name}": () for name in COUNTERS} | {"keys": (len(_STREAMS),)}
    for name, shape in expected.items():
        if name not in state:
            raise StoreError(f"the engine's state has no {name!r}; it was written with other settings")
        if np.shape(state[name]) != shape:
            raise StoreError(f"{name} has shape {np.shape(state[name])} in the state, but {shape} is needed")
    if odd := set(state) - set(expected):
        raise StoreError(f"the engine's state holds {min(odd)!r}, which these settings do not have")
    for part, suffix in enumerate(_PARTS):
        memory.write(part, {name: np.asarray(state[f"{name}{suffix}"], np.float32) for name in shapes})
    counters = {name: int(np.asarray(state[f"counter/{name}"], np.int64)) for name in COUNTERS}
    return counters, np.array(state["keys"], np.uint64)
