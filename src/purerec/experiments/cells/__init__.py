"""Cells: the units of a comparison.

cell      one model, split, seed and evaluation; the store of finished cells
work      working through cells, possibly with other processes
limits    a time limit for one model
view      progress, as shown to people
"""
