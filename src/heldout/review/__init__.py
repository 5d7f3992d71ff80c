"""Review: the local page where people adjudicate matches and texts, and rate items and twins."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.review.card import Kind, ReviewCard
    from heldout.review.desk import Desk, ReviewSettings, item_tables, open_desks
    from heldout.review.server import make_app, serve
    from heldout.review.session import Review, open_review

__all__ = [
    "Desk",
    "Kind",
    "Review",
    "ReviewCard",
    "ReviewSettings",
    "item_tables",
    "make_app",
    "open_desks",
    "open_review",
    "serve",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="open_review")
