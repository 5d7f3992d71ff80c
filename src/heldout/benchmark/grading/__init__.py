"""Right or wrong, strictly: named rules read a reply, and what none reads is unparsed."""

from heldout.benchmark.grading.grade import OUTCOMES, Grade, grade, letter

__all__ = ["OUTCOMES", "Grade", "grade", "letter"]
