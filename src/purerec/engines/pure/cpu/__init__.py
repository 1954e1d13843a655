"""Fused kernels for the dot-product family: sampling, scores, gradients and Adam in one compiled epoch.

engine             what a model calls
memory             its settings, parameters and scratch in the form that kernels expect
epochs             whole epochs
discriminator      one step of D: scores, coefficients dL/dphi, gradients, Adam
pairs, rows        scores and gradients of pairs; Adam on rows
grid               unlabeled items that a batch shares
dynamic_negatives  the choice among candidates (DNS, DRNS)
softmax            the risk with a prior per user
generators         one step of the generators
constraints        what keeps fakes near the real embeddings
kernels            what all of them share
team               two threads in one step
"""
