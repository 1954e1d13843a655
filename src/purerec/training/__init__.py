"""How a fit is run. No model maths.

    loop           epochs, validation, early stopping, limits
    run            the options of a fit
    history        a record for each epoch
    checkpoints    the state of a fit on disk
    progress       log files, TensorBoard, a progress bar
    times          limits as people write them

May import errors to evaluation, in the order of CONTRIBUTING.md.
"""
