"""Fresh items from open literature: ingest, select, generate, verify, balance, decontaminate, publish."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
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

__getattr__ = load_on_first_use(__name__, __file__, verb="synthesize")
