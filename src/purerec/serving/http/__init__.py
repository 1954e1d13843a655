"""Requests and answers: the application, what holds for every request, the bounds on bytes, the page."""
