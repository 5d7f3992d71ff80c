"""Asking a model: a benchmark's items in variants, as prompts, and what came back. See docs/asking.md."""

from heldout.model.asking.forms import Question
from heldout.model.asking.stage import TEMPLATE, write
from heldout.model.asking.variants import QuestionSet, Variant, expand, parse_variants
from heldout.model.request import Asker, Reply

__all__ = [
    "TEMPLATE",
    "Asker",
    "Question",
    "QuestionSet",
    "Reply",
    "Variant",
    "expand",
    "parse_variants",
    "write",
]
