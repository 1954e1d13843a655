"""What several methods share.

discriminator, scorers         GMF, PU-GMF and PURE: the discriminator; phi from what it learned
with_history, history          PURE: the history's part of the score; how far it counts
pairwise_mf                    BPR, LambdaFM
policy_gradient                IRGAN, GraphGAN
ratings, rating_factors, rating_sgd    SVD, NMF, PMF, SlopeOne, CoClustering"""
