"""Several processes, also on several machines, that share the work of one fit.

    group       the processes, and what they send each other
    reading     a data set in parts, of which each process reads its own
    schedule    which users belong together, which items, and who has which items when
    shard       some of the users: their rows and positives, and the kernels of the cpu engine on a block of items
    crew        the shards of one process, and the exchange of blocks with the others
    stored      their state on disk, in parts
    engine      what a model sees of all this: an engine like any other
    alternating the half-steps of iALS
    gram        the products between items of EASE
    helping     what all processes but the first do

Users and their positives stay in one shard. The items are cut into as many blocks as there are shards, and the blocks
go round: at every moment each is with another shard, so that no two processes ever change the same row, nothing is
averaged, and the order in which processes come is of no importance (Gemulla et al. 2011, distributed stochastic
gradient descent). One process can hold all shards and take the same steps, to the same bits.
"""
