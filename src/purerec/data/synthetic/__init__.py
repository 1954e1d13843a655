"""A synthetic world whose true relevance is known.

world          its settings, the truth and the log
calibration    the two constants that determine its prior and the length of its log
kernels        what is relevant, and who came to see what, compiled
"""
