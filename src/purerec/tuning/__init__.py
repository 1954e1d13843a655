"""Tuning: the search for settings, their evaluation on validation folds, study files and settings files.

May import everything above it: errors to models."""
