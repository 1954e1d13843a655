"""The study: what is derived from results files, without running anything.

results    reading results files
tables     results as tables
figures    results as charts, as listed in experiments/figures.toml
claims     verdicts on the paper's claims in experiments/claims.toml
tests      what a verdict is based on
report     everything on one page
"""
