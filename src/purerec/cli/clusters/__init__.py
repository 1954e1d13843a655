"""Commands on clusters run by other engines; `purerec.spark` is for Python only.

connecting     to an existing Ray cluster, or to a temporary one
evaluations    `purerec evaluate --on ray`
fits           `purerec fit --on ray`, with Ray Train
lists          `purerec recommend --all --on ray`, with Ray Data
"""
