"""The processes of the service: starting, restarting, reloading, stopping."""
