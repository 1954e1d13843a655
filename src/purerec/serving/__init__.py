"""The HTTP service.

    http/       requests, responses and the web page
    model/      a loaded model, and its answers
    process/    processes, signals, counters, logs

May import everything above it: errors to output."""
