"""Kernels: how they are compiled, cached and found to be fresh.

    decorator      compile a function, with a cache that never goes stale
    simd           rows of numbers as vectors
    counter_rng    random numbers

May import errors only."""
