"""Experiments: fitting and evaluating models side by side, and the paper's tables from their TOML files.

    run            one run: fit and evaluate
    cells/         what comparisons are cut into, the store of finished ones, and working through them
    panels         models side by side on one split
    compare        `pr.compare`
    results        what these return
    advice         which model to use, and what speaks against it
    picture        a comparison as a chart
    provenance     date, commit, versions and machine of a result
    specs          what an experiment's TOML file may say
    quick          its small form
    plans          its models with their settings
    reproduce      running such files
    statistics, validation, exposure, fold_in, updating, kinds/    experiments besides comparisons

May import everything above it: errors to output."""
