"""Cells: what comparisons are cut into.

cell           one model, split, seed and way to evaluate; the store of finished ones
code_digest    which code a result depends on
work           working through cells, together with other processes
limits         a time limit for one model
view           how far it is, for people
"""
