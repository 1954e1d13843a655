"""From a file, a table or a name to `Interactions`, and from those to train, validation and test parts.

    sniffing, contents, delimited, adjacency    what a file looks like; its bytes; its rows or lists
    readers, validation              files and tables; their rows checked, as Interactions
    vocabulary, interactions, indices    ids and their indices; the log; the door for indices
    datasets, download, locate, catalog  what a data set consists of; its files fetched and found; data sets by name
    splits, given, sharing, folds    parts of a log; parts from elsewhere; logs with the same ids; validation folds of its train part
    synthetic, synthetic_kernels     a world whose truth is known

May import errors, rng and jit."""
