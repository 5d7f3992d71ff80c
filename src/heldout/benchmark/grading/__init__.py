"""Strict grading: named rules read a reply, and a reply that no rule reads is unparsed."""

from heldout.benchmark.grading.grade import OUTCOMES, Grade, grade, letter

__all__ = ["OUTCOMES", "Grade", "grade", "letter"]
