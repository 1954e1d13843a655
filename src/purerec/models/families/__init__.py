"""What several methods share: discriminators, pairwise factors, policy gradients, rating predictors."""
