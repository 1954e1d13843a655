"""The paper as functions, one for each equation, and the numbers it prints.

    risks         Eq. (PNrisk), (PUrisk), nnPU, V(D)_1, V(D)_2 and the final objective, with their gradients
    generators    Eq. (generator): what the item and the user generator compute from noise
    theory        Theorem 1 (the bound on n_u), Lemma 1, Propositions 1 and 2, Theorem 2
    priors        estimates of the prior pi_p
    printed       Tables 2 to 5 and the table of settings, from experiments/paper.toml

The decision function phi, Eq. (GMF) and (generalized_D), is in `models.families.scorers`, Algorithm 1 in
`models.pure`, Table 1 in `data.catalog`. docs/paper.md lists everything.

May import errors to storage, in the order of CONTRIBUTING.md.
"""
