"""One integer seed, spawned into named, independent generators. No global state."""

from __future__ import annotations

import zlib

import numpy as np

from purerec.errors import ConfigError


def named_rng(seed: int, name: str) -> np.random.Generator:
    """The numpy Generator for one purpose (`split`, `init`, `sampling`, `noise`, `evaluation`)."""
    return np.random.default_rng(_sequence(seed, name))


def key64(seed: int, name: str) -> np.uint64:
    """A 64-bit key for one purpose, used by the counter-based streams inside compiled kernels."""
    return np.uint64(_sequence(seed, name).generate_state(1, np.uint64)[0])


def _sequence(seed: int, name: str) -> np.random.SeedSequence:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, not {seed!r}")
    # The name goes in as a stable hash, so that a new purpose never shifts the streams of the others.
    return np.random.SeedSequence([int(seed), zlib.crc32(name.encode())])
