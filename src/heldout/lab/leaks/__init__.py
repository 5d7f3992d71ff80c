"""A corpus with every kind of planted leak: recall and precision of the whole search."""
