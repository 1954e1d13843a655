"""Code that several methods share.

discriminator, scorers         GMF, PU-GMF and PURE: the discriminator; phi from its parameters
game, held_out                 one fit of it; what is chosen by pairs held out of the first epochs
history                        PURE: the history's part of the score
pairwise_mf                    BPR, LambdaFM
policy_gradient                IRGAN, GraphGAN
ratings, rating_factors, rating_sgd    SVD, NMF, PMF, SlopeOne, CoClustering"""
