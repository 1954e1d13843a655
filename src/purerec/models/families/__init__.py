"""Code that several methods share.

discriminator, scorers         GMF, PU-GMF and PURE: the discriminator; phi from its parameters
with_history, history          PURE: the history's part of the score; how much it counts
pairwise_mf                    BPR, LambdaFM
policy_gradient                IRGAN, GraphGAN
ratings, rating_factors, rating_sgd    SVD, NMF, PMF, SlopeOne, CoClustering"""
