"""What trains the models: one folder or file for each family of kernels.

    source      where an engine gets its positives from: all of them, or those of one worker
    pure/       the game of PURE, PU-GMF and GMF: `spec` defines it, `cpu` and `torch` implement it
    distributed/    the same game, shared by several processes
    closed_form/    weights between items without training: EASE's, and the history's part of PURE
    foldin/     the vector of a person who was not in training
    bpr, irgan, graphgan, cfgan, multvae    kernels and networks of individual methods
    row_adam, columns    what several of them share

May import what is above it: errors to training."""
