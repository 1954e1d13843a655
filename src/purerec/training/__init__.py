"""How a fit is run. No model maths.

    loop           epochs, validation, early stopping, limits
    run            options of a fit
    history        records of its epochs
    checkpoints    its state on disk
    progress       log files, TensorBoard, a progress bar
    times          limits as people write them

May import errors, storage."""
