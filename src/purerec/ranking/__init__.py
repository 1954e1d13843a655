"""Scores to ranks and lists, exactly and in bounded memory.

    scorers                    what can be ranked: factors, or panels of scores
    ranks                      ranks of given items; top-k lists; how ties are broken
    tiles, rank_counts, top_lists    the kernels

May import errors, rng, jit, data."""
