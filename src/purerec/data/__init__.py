"""From a file, a table or a name to `Interactions`, and from there to train, validation and test parts.

    contents, sniffing                   the text of a file; its delimiter, header and columns
    delimited, adjacency                 its rows, or its lists of items per user
    readers, validation                  files and tables read; their values checked
    vocabulary, interactions             ids and their indices; the log
    pairs                                pairs sorted by user and item, repeated ones found
    sharing                              several logs with the same ids
    datasets, catalog, locate, download  data sets by name; where their files are; how they are fetched
    splits, picking, made                parts made from a log; which rows are held out; how parts were made
    given, folds, cold                   parts given; validation folds of a train part; ids new to the test part
    memory                               how much is available, and how much a piece of work takes
    synthetic/                           a synthetic world whose true relevance is known

May import errors, rng and jit."""
