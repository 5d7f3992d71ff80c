"""open_encoder: the encoder a user names, ours or another package's."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from heldout.errors import InputError
from heldout.overlap.encoders.encoder import Encoder

GROUP = "heldout.encoders"


def _pixels(argument: str) -> Encoder:
    from heldout.overlap.encoders.pixels import PixelsEncoder

    if argument:
        raise InputError(f"encoder pixels:{argument}: pixels takes no argument")
    return PixelsEncoder()


def _onnx(argument: str) -> Encoder:
    from heldout.overlap.encoders.model_files import OnnxEncoder

    return OnnxEncoder(argument)


def _torchscript(argument: str) -> Encoder:
    from heldout.overlap.encoders.model_files import TorchScriptEncoder

    return TorchScriptEncoder(argument)


def _transformers(argument: str) -> Encoder:
    from heldout.overlap.encoders.huggingface import TransformersEncoder

    return TransformersEncoder(argument)


def _open_clip(argument: str) -> Encoder:
    from heldout.overlap.encoders.openclip import OpenClipEncoder

    return OpenClipEncoder(argument)


BUILT_IN: dict[str, Callable[[str], Encoder]] = {
    "pixels": _pixels,
    "onnx": _onnx,
    "torchscript": _torchscript,
    "transformers": _transformers,
    "open_clip": _open_clip,
}


def open_encoder(spec: str) -> Encoder:
    """``pixels``, ``onnx:FILE``, ``torchscript:FILE``, ``transformers:NAME``, ``open_clip:MODEL/TAG``.

    Another package adds its own by the entry point group ``heldout.encoders``: a callable that takes
    what stands after the colon.
    """
    kind, _, argument = spec.partition(":")
    if kind in BUILT_IN:
        if kind != "pixels" and not argument:
            raise InputError(f"encoder {spec}: expected something after '{kind}:'")
        return BUILT_IN[kind](argument)
    for point in entry_points(group=GROUP):
        if point.name == kind:
            encoder = point.load()(argument)
            if not isinstance(encoder, Encoder):
                raise InputError(f"encoder {spec}: {point.value} did not return an Encoder")
            return encoder
    known = [*BUILT_IN, *sorted(point.name for point in entry_points(group=GROUP))]
    raise InputError(
        f"encoder {spec}: expected one of {', '.join(known)} (pixels needs no weights)"
    )
