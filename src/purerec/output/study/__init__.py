"""The study: what is made of results files, without running anything.

results    reading them
tables     as tables
figures    as charts: which ones is in experiments/figures.toml
claims     verdicts on what the paper claims: experiments/claims.toml
tests      what a verdict is based on
report     all of it as one page
"""
