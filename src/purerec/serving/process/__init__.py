"""The processes of the service: starting, restarting, reloading, stopping.

launch            `serve`: bind, load, answer
settings          how a service is set up
single_process    a service in one process
supervisor, worker_process, channel    a service in several, and their messages
server            what both kinds of process run: uvicorn with our signals, limits and log
pool              threads for the model
metrics, logs     counters for Prometheus; lines of JSON
"""
