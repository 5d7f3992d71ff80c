"""Texts of a benchmark in corpora: exact, edited, quoted and reworded."""
