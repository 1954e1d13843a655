"""Tuning: the search for settings, their evaluation on validation folds, study files and settings files; and an
estimate of the class prior.

May import everything above it: errors to models."""
