"""What trains the models: one folder or file for each family of kernels.

    source          where an engine gets its positives: all of them, or one worker's share
    pure/           the game of PURE, PU-GMF and GMF: `spec` defines it, `cpu` and `torch` implement it
    distributed/    the same game, shared by several processes
    closed_form/    weights between items without training: EASE's, and the history's part of PURE
    foldin/         the vector of a person who was not in training
    bpr, ials, irgan, graphgan, cfgan, multvae    kernels and networks of individual methods
    row_adam, columns    what several of them share

May import errors to training, in the order of CONTRIBUTING.md.
"""
