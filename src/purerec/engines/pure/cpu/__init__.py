"""Fused kernels for the dot-product family: sampling, scores, gradients and Adam in one compiled epoch."""
