"""HTTP: the application, the checks of every request, the limits on bytes, the page."""
