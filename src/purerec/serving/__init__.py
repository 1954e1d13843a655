"""The HTTP service.

    http/       requests, answers and the page
    model/      a loaded model, and what it is asked
    process/    processes, signals, counters, logs

May import everything above it: errors to output."""
