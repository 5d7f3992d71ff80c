"""Fresh items from open literature: ingest, select, generate, verify, balance, decontaminate, publish."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.synth.contamination import images_compared
    from heldout.synth.context import require_settings
    from heldout.synth.decontaminate import text_encoder
    from heldout.synth.draft import LETTERS, Draft, FigureImage, PaperFigure
    from heldout.synth.ledger import (
        FILE_REASONS,
        Funnel,
        FunnelStep,
        answering_models,
        code_and_verifier,
        finished,
        folder,
        read_dropped,
        read_funnel,
        read_rows,
    )
    from heldout.synth.pipeline import Synthesis, check_source, synth
    from heldout.synth.plan import source_costs
    from heldout.synth.planting import (
        INTERVALS,
        STAGES,
        PlantedRecall,
        cluster_rate,
        planted_recall,
    )
    from heldout.synth.publish import DATASET, PROVENANCE, STATISTICS
    from heldout.synth.rubric import BY_KEY, CRITERIA, RUBRIC, Category
    from heldout.synth.settings import (
        MODEL_ROLES,
        SCENES,
        Conditioning,
        Normalisation,
        SynthSettings,
        SynthStage,
    )
    from heldout.synth.shortcut import (
        CHANCE,
        FLAGGED_BY_CHANCE,
        NEEDED,
        OVERLONG,
        ProbeRate,
        probe_rates,
    )

__all__ = [
    "BY_KEY",
    "CHANCE",
    "CRITERIA",
    "DATASET",
    "FILE_REASONS",
    "FLAGGED_BY_CHANCE",
    "INTERVALS",
    "LETTERS",
    "MODEL_ROLES",
    "NEEDED",
    "OVERLONG",
    "PROVENANCE",
    "RUBRIC",
    "SCENES",
    "STAGES",
    "STATISTICS",
    "Category",
    "Conditioning",
    "Draft",
    "FigureImage",
    "Funnel",
    "FunnelStep",
    "Normalisation",
    "PaperFigure",
    "PlantedRecall",
    "ProbeRate",
    "SynthSettings",
    "SynthStage",
    "Synthesis",
    "answering_models",
    "check_source",
    "cluster_rate",
    "code_and_verifier",
    "finished",
    "folder",
    "images_compared",
    "planted_recall",
    "probe_rates",
    "read_dropped",
    "read_funnel",
    "read_rows",
    "require_settings",
    "source_costs",
    "synth",
    "text_encoder",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="synthesize")
