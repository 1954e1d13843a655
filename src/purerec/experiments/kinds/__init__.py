"""Kinds of experiments other than comparisons: from a spec to the content of the results file."""
