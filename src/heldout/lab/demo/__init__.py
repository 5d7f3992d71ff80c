"""The data and models of `heldout demo`: a rendered benchmark, a leaky corpus, three small models."""
