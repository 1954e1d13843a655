"""HTTP: the application, checks of every request, limits on bytes, the web page."""
