"""ReviewSettings: every setting of ``heldout review``, once, for the command line and Python."""

from __future__ import annotations

import getpass
from typing import Annotated

from pydantic import Field

from heldout.review.card import Kind
from heldout.settings import Settings


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


class ReviewSettings(Settings):
    """Settings of ``heldout review``."""

    rater: str = Field(default_factory=user_name)
    """Who judges (default: your user name)."""
    kind: Kind | None = None
    """What to judge (default: matches, texts and twins, as far as the run has them, else items)."""
    blind: bool = False
    """Show neither the tool's opinion nor other raters' verdicts."""
    rubric: bool = True
    """Items: show the verifier's rubric."""
    unrelated: bool = False
    """Also pairs that count for nothing: nothing aligns, or the words are common."""
    sample: Annotated[int | None, Field(ge=1)] = None
    """Judge a random sample of this size, drawn once and shared by all raters (default: everything)."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port on this machine; 0 takes a free one."""
