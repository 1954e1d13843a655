"""The game of PURE on two equivalent engines.

    spec        the settings, the objective, one explicit batch, and what an engine does
    registry    the engines by name
    cpu/        compiled kernels, for scorers of the dot-product family
    torch/      autograd, any scorer, GPU

`Engine` is what they have in common."""
