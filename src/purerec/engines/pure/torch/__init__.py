"""The same game by autograd: short modules, any scorer, GPU."""
