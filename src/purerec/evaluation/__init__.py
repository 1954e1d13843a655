"""From ranks to metrics, with a value for each user.

    metrics         P, NDCG, MAP, MRR and others, from ranks
    own             custom metrics
    lists           metrics of whole lists
    choosing        which metrics to report, and which one decides
    groups          metrics per group of users or items
    users           splitting the users into parts
    protocols       exact, sampled and as published
    parts           merging the evaluations of parts
    leakage         refusing a model that has seen the answers
    widened         a model with users and items that are new to it
    code_digest     which code a result depends on
    code_files      the files that code depends on
    significance    whether a difference is real

May import errors to ranking, in the order of CONTRIBUTING.md.
"""
