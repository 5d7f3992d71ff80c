"""OnnxModel: the onnxruntime backend. It needs numpy, Pillow, jinja2, onnxruntime and tokenizers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from heldout.errors import InputError, require
from heldout.model.local.answering import Parts
from heldout.model.local.layout import Layout
from heldout.model.local.load import family_of
from heldout.model.local.passes import BATCH_TOKENS
from heldout.model.local.running import RunningModel
from heldout.model.local.writing import Writer
from heldout.model.onnx.card import CARD, read_card
from heldout.model.onnx.graphs import open_graphs
from heldout.model.onnx.passes import OnnxPasses
from heldout.model.onnx.processor import LightProcessor, LightTokenizer
from heldout.model.prompt import TEMPLATE

_DTYPES = ("auto", "float32")


class OnnxModel(RunningModel):
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    @classmethod
    def load(
        cls,
        folder: str | Path,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        sharing: bool = True,
    ) -> OnnxModel:
        for package in ("onnxruntime", "tokenizers"):
            require(package, "onnx", "running a model onnx:FOLDER")
        if dtype not in _DTYPES:
            raise InputError(
                f"dtype {dtype}: graphs of onnx:FOLDER calculate in float32; leave it out"
            )
        folder = Path(folder).expanduser()
        card = read_card(folder)
        tokenizer = LightTokenizer.open(folder, card)
        processor = LightProcessor(folder, card, tokenizer)
        graphs = open_graphs(folder, card, device)
        family = family_of(card)
        writer = Writer(processor, tokenizer, family)
        layout = Layout(
            processor,
            tokenizer,
            family,
            placeholder=writer.placeholder,
            image_id=card.image_token_id,
        )
        identity = {
            "backend": "onnxruntime",
            "model": folder.resolve().name,
            # The card holds the hash of every other file.
            "revision": f"onnx {hashlib.sha256((folder / CARD).read_bytes()).hexdigest()[:16]}",
            "dtype": "float32",
            "template": TEMPLATE,
            "form": writer.form,
            "processor": "Pillow",
            "provider": graphs.provider,
            "source": f"{card.source.name} {card.source.revision}",
        }
        return cls(
            Parts(
                identity=identity,
                family=family,
                writer=writer,
                layout=layout,
                passes=OnnxPasses(graphs, card),
                tokenizer=tokenizer,
                image_id=card.image_token_id,
                context=card.decoder.context,
                batch_tokens=batch_tokens,
                sharing=sharing,
                replies=False,
            )
        )
