"""Scores to ranks and lists, exactly and in bounded memory.

    scorers        what can be ranked: factors, or panels of scores
    ranks          ranks of given items; top-k lists; how ties are broken
    rank_counts    kernels that count the items ranked before each positive
    top_lists      kernels that keep the best items
    tiles          the tiles of scores that both work on
    mixtures       ranks under several mixtures of two scores

May import errors to paper, in the order of CONTRIBUTING.md.
"""
