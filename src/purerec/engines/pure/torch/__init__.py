"""The same game with autograd: any scorer, GPU.

engine     Algorithm 1
batches    positives, unlabeled pairs and noise
modules    the discriminator, the generators, the risk
stats      sums over an epoch
device     where it computes"""
