"""Fused kernels for the dot-product family: sampling, scores, gradients and Adam in one compiled epoch.

engine, memory                        the engine; its settings and arrays as kernels want them
epochs, choice                        whole epochs; the choice among candidates of dynamic negatives
discriminator, pairs, rows, kernels   its step; scores and gradients of pairs; Adam on rows; what all share
softmax                               the risk with a prior per user
generators, constraints               their step; what keeps fakes near the real embeddings
team                                  two threads in one step"""
