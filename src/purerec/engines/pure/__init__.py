"""The game of PURE on two equivalent engines.

    spec        the settings, the objective, one explicit batch, and what an engine does
    registry    the engines by name
    cpu/        compiled kernels, for scorers of the dot-product family
    torch/      autograd, any scorer, GPU

An engine trains one epoch of D or of the generators. Algorithm 1 alternates the two: `models.pure.PUREGame.play`,
repeated by `training.loop.run_epochs`.
"""
