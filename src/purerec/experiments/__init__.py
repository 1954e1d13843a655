"""Experiments: fitting and evaluating models side by side, and the paper's tables from their TOML files.

    run          one run, comparisons of models, and a store of finished runs
    results      what they return
    specs        what an experiment's TOML file may say
    plans        its models with their settings
    reproduce    running such a file
    validation, exposure, fold_in, updating    kinds of experiments besides comparisons

May import everything above it: errors to tuning."""
