"""Ranks to metrics with a value for each user.

    metrics         P, NDCG, MAP, MRR and others, from ranks
    own             metrics of other people
    lists           the lists that some metrics need
    choosing        which metrics are reported, and which one decides
    groups          metrics per group of users or items
    users           users in parts
    protocols       exact, sampled, as published
    parts           evaluations of parts, put together
    leakage         a model that has seen the answers is refused
    widened         a model among users and items that are new to it
    significance    whether a difference is real

May import what is above it, down to ranking."""
