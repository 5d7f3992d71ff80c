"""Power and false positives of every detector on tables and models whose contamination is known."""
