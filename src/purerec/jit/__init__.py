"""Compiling and caching kernels.

    arrays         arrays in the form that kernels take
    decorator      compile a function, with a cache that never goes stale
    turns          one process at a time compiles a kernel
    compiling      how long that took
    simd           rows of numbers as vectors
    matmul         products of small matrices
    counter_rng    random numbers

May import errors to types, in the order of CONTRIBUTING.md.
"""
