"""How data looks in a notebook.

html    tables of logs, splits and results
"""
