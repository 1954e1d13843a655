"""Compiling and caching kernels.

    arrays         arrays as kernels get them
    decorator      compile a function, with a cache that never goes stale
    turns          one process at a time compiles a kernel
    compiling      how long that took
    simd           rows of numbers as vectors
    matmul         products of small matrices
    counter_rng    random numbers

May import errors only."""
