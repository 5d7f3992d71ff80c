"""Twins: the same question with a new picture, on which another answer is right. See docs/twins.md."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.twin.drawing import render
    from heldout.twin.edges import HIGH, LOW, edges, faint
    from heldout.twin.edit_renderer import EditRenderer
    from heldout.twin.filtering import POLICIES, choose_policy, earlier_verdicts, filter_twins
    from heldout.twin.ledger import (
        DESCRIBE,
        EDGES,
        FILTER,
        PUBLISH,
        RENDER,
        RESAMPLE,
        STAGES,
        dropped_of,
        finished,
        read_stage,
        said_by_people,
        write_stage,
    )
    from heldout.twin.publish import publish
    from heldout.twin.renderers import KINDS, Renderer, RenderError, RenderTask, open_renderer
    from heldout.twin.resample import NewAnswer, resample
    from heldout.twin.settings import TwinSettings
    from heldout.twin.twinning import Twinning, TwinResult, make_twins, run_stages
    from heldout.twin.verify import DESCRIBE_TEMPLATE, LONGEST_CAPTION, VERIFY_TEMPLATE, describe

__all__ = [
    "DESCRIBE",
    "DESCRIBE_TEMPLATE",
    "EDGES",
    "FILTER",
    "HIGH",
    "KINDS",
    "LONGEST_CAPTION",
    "LOW",
    "POLICIES",
    "PUBLISH",
    "RENDER",
    "RESAMPLE",
    "STAGES",
    "VERIFY_TEMPLATE",
    "EditRenderer",
    "NewAnswer",
    "RenderError",
    "RenderTask",
    "Renderer",
    "TwinResult",
    "TwinSettings",
    "Twinning",
    "choose_policy",
    "describe",
    "dropped_of",
    "earlier_verdicts",
    "edges",
    "faint",
    "filter_twins",
    "finished",
    "make_twins",
    "open_renderer",
    "publish",
    "read_stage",
    "render",
    "resample",
    "run_stages",
    "said_by_people",
    "write_stage",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="make_twins")
