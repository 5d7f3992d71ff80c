"""A model that runs here. See docs/scoring.md.

``LocalModel`` runs a checkpoint through transformers. Prompts, layout, spans, groups, batches and replies
are the same whatever runs the model (``passes``): model/onnx uses them without torch.
"""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.model.local.local_model import LocalModel, RunningModel

__all__ = ["LocalModel", "RunningModel"]

__getattr__ = load_on_first_use(__name__, __file__)
