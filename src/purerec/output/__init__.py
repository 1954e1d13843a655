"""Output for people and other systems: the terminal, tables, vectors, reports.

May import everything above it: errors to tuning."""
