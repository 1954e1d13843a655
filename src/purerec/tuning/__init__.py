"""Tuning: searching for settings on validation folds.

    tune             `pr.tune`
    search           from a model, its space and a budget to the best settings, and a check on fresh folds
    objective        the value of settings on validation folds
    study            the trials of a search, in a file
    settings_file    what was found, as TOML that other commands accept
    prior            an estimate of the class prior

May import errors to models, in the order of CONTRIBUTING.md.
"""
