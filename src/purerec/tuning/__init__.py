"""Better settings: the search, what settings are worth on validation folds, study files and settings files.

May import everything above it: errors to models."""
