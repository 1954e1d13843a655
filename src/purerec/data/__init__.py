"""From a file, a table or a name to `Interactions`, and from there to train, validation and test parts.

    readers, validation                  reading files and tables; checking their values
    vocabulary, interactions             ids and their indices; the log
    pairs                                distinct pairs of users and items, in compressed rows
    sharing                              several logs with the same ids
    catalog, datasets, locate, download  named data sets (Table 1); loading them; finding their files; fetching them
    splits, picking, made                splitting a log; which rows are held out; how parts were made
    given, folds, cold                   given parts; validation folds of a train part; ids new to the test part
    memory                               how much is available, and how much a piece of work takes
    text/                                text files: their layout and rows
    items/                               what is known about items besides who liked them
    large/                               logs that are larger than memory
    synthetic/                           a synthetic world whose true relevance is known
    display/                             how data looks in a notebook
    plugins/                             third-party readers and other code, by name

May import errors to jit, in the order of CONTRIBUTING.md.
"""
