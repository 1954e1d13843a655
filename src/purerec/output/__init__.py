"""Output for people and other systems: the terminal, tables, vectors, reports.

    charts, svg, palette    charts, and how they are drawn
    page, report            HTML pages, and the report of a fit
    tracking                fits in MLflow
    study/                  tables, figures, verdicts and a report from results files

May import everything above it: errors to tuning."""
