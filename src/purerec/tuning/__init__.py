"""Tuning: searching for settings, evaluating them on validation folds, study files, settings files, and estimating
the class prior.

May import everything above it: errors to models."""
