"""Two engines, one meaning: `cpu` (fused numba kernels) and `torch` (readable, autograd, any scorer, GPU)."""
