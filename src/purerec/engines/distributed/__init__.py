"""Several processes, possibly on several machines, that share the work of one fit.

    group       the processes, and their communication
    roll        who they are, and which of them was lost
    reading     a data set in parts, of which each process reads its own
    schedule    which users form a shard, which items a block, and which shard has which block when
    shard       some of the users: their rows and positives, and the cpu engine on a block of items at a time
    on_device   the torch engine in its place
    crew        the shards of one process, and the exchange of blocks with the others
    stored      their state on disk, in parts
    engine      what the model sees: an engine like any other
    alternating  the half-steps of iALS
    gram        the products between items of EASE
    helping     what the other processes do

Users and their positives stay in one shard. The items are cut into as many blocks as there are shards, and the blocks
rotate: at any time each is in a different shard, so that no two processes ever change the same row, nothing is
averaged, and the order of the processes does not matter (Gemulla et al. 2011, distributed stochastic gradient
descent). One process can hold all shards and take the same steps, to the same bits.
"""
