"""A LLaVA-style model as three ONNX graphs: vision tower, projector, decoder with its keys and values."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heldout.model import (
    DECODER,
    FEATURES,
    IDS,
    LOGITS,
    PICTURES,
    PIXELS,
    PLACES,
    PROJECTOR,
    ROWS,
    SLOTS,
    VISION,
    Decoder,
    Preparation,
    past_names,
    present_names,
)

OPSET = 18  # every onnxruntime since 1.14 runs it
FLOAT16, BFLOAT16, FLOAT32 = "float16", "bfloat16", "float32"


def write_graphs(model: Any, folder: Path, how: Preparation, shape: Decoder, stored: str) -> None:
    """``model`` is in float32 and calculates attention eagerly, which a trace can follow."""
    import torch

    pixels = torch.zeros(2, 3, how.height, how.width)
    tower = _tower(model)
    with torch.no_grad():
        features = tower(pixels)
    axes = {PIXELS: {0: "n"}, FEATURES: {0: "n"}, PICTURES: {0: "n"}}
    _write(folder / VISION, tower, [pixels], [PIXELS], [FEATURES], axes, stored)
    projector = model.model.multi_modal_projector
    _write(folder / PROJECTOR, projector, [features], [FEATURES], [PICTURES], axes, stored)
    _write_decoder(folder / DECODER, model, shape, stored)


def narrowest(model: Any) -> str:
    """The smallest type that holds every weight exactly: a graph loses nothing by storing it so."""
    weights = [weight.detach().numpy() for weight in model.parameters()]
    for name in (FLOAT16, BFLOAT16):
        if all(_exact(weight, name) for weight in weights):
            return name
    return FLOAT32


def _tower(model: Any) -> Any:
    import torch

    class Tower(torch.nn.Module):  # type: ignore[misc]
        """From pixels to what the projector is given: the layers and places that the model selects."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model.model

        def forward(self, pixels: Any) -> Any:
            inputs: list[Any] = []
            hook = self.inner.multi_modal_projector.register_forward_pre_hook(
                lambda _module, args: inputs.append(args[0])
            )
            try:
                self.inner.get_image_features(pixels, return_dict=True)
            finally:
                hook.remove()
            return inputs[0]

    return Tower().eval()


def _write_decoder(file: Path, model: Any, shape: Decoder, stored: str) -> None:
    import torch
    from transformers import DynamicCache

    class CachedDecoder(torch.nn.Module):  # type: ignore[misc]
        """Tokens after what was read before; ``slots`` says where a line of the pictures stands.

        A past of one row serves all rows. Rows are padded on the right, where causality hides it.
        """

        def __init__(self) -> None:
            super().__init__()
            self.inner = model.model.language_model
            self.head = model.get_output_embeddings()

        def forward(
            self, ids: Any, slots: Any, pictures: Any, rows: Any, places: Any, *past: Any
        ) -> Any:
            count, width = ids.shape
            before = past[0].shape[2]
            shown = pictures[slots.clamp(min=0)]
            words = self.inner.get_input_embeddings()(ids)
            embedded = torch.where((slots >= 0).unsqueeze(-1), shown, words)
            places_of = torch.arange(width) + before
            seen = torch.arange(width + before)[None, :] <= places_of[:, None]
            mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]
            cache = DynamicCache()
            for layer in range(shape.layers):
                keys, values = past[2 * layer], past[2 * layer + 1]
                cache.update(
                    keys.expand(count, -1, -1, -1), values.expand(count, -1, -1, -1), layer
                )
            read = self.inner(
                inputs_embeds=embedded,
                attention_mask=mask.expand(count, 1, -1, -1),
                position_ids=places_of[None].expand(count, -1),
                past_key_values=cache,
                use_cache=True,
            )
            kept = [
                part for layer in read.past_key_values.layers for part in (layer.keys, layer.values)
            ]
            return (self.head(read.last_hidden_state[rows, places]), *kept)

    past, present = past_names(shape.layers), present_names(shape.layers)
    cache = torch.zeros(1, shape.heads, 5, shape.head_width)
    inputs = [
        torch.zeros(3, 7, dtype=torch.long),
        torch.full((3, 7), -1),
        torch.zeros(4, shape.width),
        torch.tensor([0, 2]),
        torch.tensor([3, 6]),
        *(cache.clone() for _ in past),
    ]
    tokens = {0: "rows", 1: "tokens"}
    axes: dict[str, dict[int, str]] = {IDS: tokens, SLOTS: tokens, PICTURES: {0: "lines"}}
    axes |= {ROWS: {0: "wanted"}, PLACES: {0: "wanted"}, LOGITS: {0: "wanted"}}
    axes |= {name: {0: "past_rows", 2: "past"} for name in past}
    axes |= {name: {0: "rows", 2: "present"} for name in present}
    names = [IDS, SLOTS, PICTURES, ROWS, PLACES, *past]
    _write(file, CachedDecoder().eval(), inputs, names, [LOGITS, *present], axes, stored)


def _write(
    file: Path,
    module: Any,
    arguments: Sequence[Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Mapping[str, Mapping[int, str]],
    stored: str,
) -> None:
    import onnx
    import torch

    buffer = io.BytesIO()
    named = {name: axes[name] for name in (*inputs, *outputs)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of tracing: the numbers are compared afterwards
        torch.onnx.export(
            module,
            tuple(arguments),
            buffer,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=named,
            do_constant_folding=False,  # it would store a tied embedding twice, once transposed
        )
    graph = onnx.load_from_string(buffer.getvalue())
    _narrow(graph.graph, stored)
    _shorten(graph.graph)
    onnx.checker.check_model(graph)
    onnx.save(graph, file)


def _shorten(graph: Any) -> None:
    """Shorten names, which hold the path through torch's modules and take more room than the nodes
    themselves."""
    kept = {tensor.name for tensor in (*graph.input, *graph.output, *graph.initializer)}
    short: dict[str, str] = {"": ""}
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name not in kept:
                    names[place] = short.setdefault(name, f"v{len(short)}")
    del graph.value_info[:]


def _narrow(graph: Any, stored: str) -> None:
    """Weights in the type ``stored`` with a cast behind them; what is not exact in it stays."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    if stored == FLOAT32:
        return
    kinds = {FLOAT16: TensorProto.FLOAT16, BFLOAT16: TensorProto.BFLOAT16}
    casts = []
    for place, weight in enumerate(graph.initializer):
        if weight.data_type != TensorProto.FLOAT:
            continue
        numbers = numpy_helper.to_array(weight)
        if numbers.ndim == 0 or not _exact(numbers, stored):
            continue
        raw = numbers.astype(np.float16) if stored == FLOAT16 else _upper_halves(numbers)
        name = f"{weight.name}.{stored}"
        tensor = helper.make_tensor(name, kinds[stored], numbers.shape, raw.tobytes(), raw=True)
        casts.append(helper.make_node("Cast", [name], [weight.name], to=onnx.TensorProto.FLOAT))
        graph.initializer[place].CopyFrom(tensor)
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _exact(numbers: Any, name: str) -> bool:
    if name == FLOAT16:
        with np.errstate(over="ignore"):
            return bool((numbers.astype(np.float16).astype(np.float32) == numbers).all())
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return not (bits & 0xFFFF).any()


def _upper_halves(numbers: Any) -> Any:
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16)
