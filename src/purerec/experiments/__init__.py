"""Runs: data, split, model, seed to results; comparisons; the paper's tables from their TOML.

May import everything above it: errors to tuning."""
