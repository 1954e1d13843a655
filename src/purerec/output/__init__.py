"""Output for people and other systems: the terminal, tables, vectors, reports.

    console, streams        the terminal; standard streams that may be closed or full
    settings                settings as people read them
    tables, partitions      lists as one file, or as a folder of Parquet files
    vectors                 a model's vectors for other programs
    charts, svg, palette    charts, and how they are drawn
    page, report            HTML pages, and the report of a fit
    tracking                fits in MLflow
    study/                  tables, figures, verdicts and a report from results files

May import errors to tuning, in the order of CONTRIBUTING.md.
"""
