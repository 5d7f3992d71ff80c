"""Dual encoders: zero-shot classification, linear probes and image–text retrieval, item by item."""

from heldout.evaluate.encoders.evaluation import encoder_name, evaluate_encoder
from heldout.evaluate.encoders.result import EncoderEvaluation, TaskResult
from heldout.evaluate.encoders.settings import NAMED as TEMPLATES
from heldout.evaluate.encoders.settings import EncoderSettings, EncoderTask

__all__ = [
    "TEMPLATES",
    "EncoderEvaluation",
    "EncoderSettings",
    "EncoderTask",
    "TaskResult",
    "encoder_name",
    "evaluate_encoder",
]
