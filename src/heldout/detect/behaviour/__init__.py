"""Detectors that need nothing but answers: the same item asked in two ways."""
