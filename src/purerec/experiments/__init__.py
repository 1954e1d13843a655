"""Experiments: fitting and evaluating models side by side, and the paper's tables from their TOML files.

    run            one run: fit and evaluate a model
    cells/         the units of a comparison, the store of finished ones, and working through them
    panels         models side by side on one split
    compare        `pr.compare`
    results        what they return
    advice         which model to use, and the caveats
    picture        a comparison as a chart
    provenance     date, commit, versions and machine of a result
    specs          the schema of an experiment's TOML file
    quick          its small version
    plans          its models with their settings
    fetchable      its parts whose data can be fetched
    reproduce      running such files
    statistics, validation, exposure, fold_in, updating, leave_one_out, kinds/    experiments other than comparisons

May import errors to output, in the order of CONTRIBUTING.md.
"""
