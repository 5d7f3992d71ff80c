"""A model that runs here by onnxruntime, without torch: ``onnx:FOLDER``. See docs/scoring.md."""

from heldout.model.onnx.graphs import CARD, OnnxCard, read_card
from heldout.model.onnx.onnx_model import OnnxModel

__all__ = ["CARD", "OnnxCard", "OnnxModel", "read_card"]
