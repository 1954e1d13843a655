"""Code that several methods share.

discriminator      GMF, PU-GMF and PURE: settings, and the discriminator
scorers            phi from its parameters
game               one fit of it
held_out           what is chosen by pairs held out of the first epochs
history            PURE: the history's part of the score
foldin             the vector of a new person under their risk
pairwise_mf        BPR, LambdaFM
policy_gradient    IRGAN, GraphGAN
ratings, rating_factors, rating_sgd    SVD, NMF, PMF, SlopeOne, CoClustering
"""
