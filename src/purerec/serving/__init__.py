"""HTTP service and its web page."""
