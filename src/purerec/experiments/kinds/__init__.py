"""Kinds of experiments besides comparisons: a spec in, what goes into the results file out."""
