"""The copies that a search finds, and its milliseconds, beside the usual alternatives."""
