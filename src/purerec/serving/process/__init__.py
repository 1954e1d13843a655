"""How the service is started, kept alive, told to reload and stopped."""
