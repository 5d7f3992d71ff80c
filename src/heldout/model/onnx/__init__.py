"""A model that runs here by onnxruntime, without torch: ``onnx:FOLDER``. See docs/scoring.md."""

from heldout.model.onnx.card import CARD, Card, read_card
from heldout.model.onnx.onnx_model import OnnxModel

__all__ = ["CARD", "Card", "OnnxModel", "read_card"]
