"""Epochs, early stopping, limits, checkpoints (`loop`), and what is told about them (`progress`). No model maths.

May import errors, storage."""
