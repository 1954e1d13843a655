"""The paper as functions: its risks, its prior, its theory, and the numbers it prints. One function per equation.

May import errors only."""
