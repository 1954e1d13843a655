"""The game of PURE on two engines with one meaning. `spec` has the settings, the objective and one explicit batch."""
