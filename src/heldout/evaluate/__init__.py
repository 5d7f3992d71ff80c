"""Suites and metrics: what a model scores, on all items and on those that did not leak."""
