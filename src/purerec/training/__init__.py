"""How a fit is run. No model maths.

    loop           epochs, validation, early stopping, limits
    run            what a fit may do besides learning, and its history
    checkpoints    its state on disk
    progress       log files, TensorBoard, a progress bar

May import errors, storage."""
