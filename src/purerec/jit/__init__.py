"""Compiling and caching kernels.

    arrays         arrays as kernels get them
    decorator      compile a function, with a cache that never goes stale
    simd           rows of numbers as vectors
    counter_rng    random numbers

May import errors only."""
