"""The HTTP service.

    http/       requests, responses and the web page
    model/      a loaded model, and its answers
    process/    processes, signals, counters, logs

May import errors to experiments, in the order of CONTRIBUTING.md.
"""
