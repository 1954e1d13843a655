"""Compiling and caching kernels.

    arrays         arrays as kernels get them
    decorator      compile a function, with a cache that never goes stale
    compiling      how long that took
    simd           rows of numbers as vectors
    counter_rng    random numbers

May import errors only."""
