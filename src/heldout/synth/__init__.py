"""Fresh items from open literature: ingest, select, generate, verify, balance, decontaminate, publish."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import heldout
from heldout.synth.draft import LETTERS, Draft, FigureImage, PaperFigure
from heldout.synth.funnel import Funnel, FunnelStep, read_funnel
from heldout.synth.pipeline import Synthesis, synth
from heldout.synth.settings import (
    Conditioning,
    ModelEndpoint,
    Normalisation,
    SynthSettings,
    SynthStage,
)

__all__ = [
    "LETTERS",
    "Conditioning",
    "Draft",
    "FigureImage",
    "Funnel",
    "FunnelStep",
    "ModelEndpoint",
    "Normalisation",
    "PaperFigure",
    "SynthSettings",
    "SynthStage",
    "Synthesis",
    "read_funnel",
    "synth",
]


class _Verb(ModuleType):
    """This package, which Python names like the verb: ``heldout.synth(...)`` makes items.

    The verb also writes the page and the dataset card, which rooms above this one do; it is reached through
    the package's front door.
    """

    def __call__(self, *args: Any, **values: Any) -> Synthesis:
        made: Synthesis = heldout.synthesize(*args, **values)
        return made


sys.modules[__name__].__class__ = _Verb
