"""Commands on clusters that other people's engines run; `purerec.spark` is for Python only.

connecting  to a Ray cluster, or to one of our own
fits        `purerec fit --on ray`, by Ray Train
lists       `purerec recommend --all --on ray`, by Ray Data
"""
