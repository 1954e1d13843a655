"""The same game with autograd: any scorer, GPU.

engine     epochs and steps of D and of the generators
batches    positives, unlabeled pairs and noise
modules    the discriminator, the generators, the risk
stats      sums over an epoch
device     where it computes
"""
