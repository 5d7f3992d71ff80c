"""``heldout.review(...)``: the page in the background of a notebook or script, with frames of judgements."""

from __future__ import annotations

import contextlib
import html
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl

from heldout.review.card import FORMS
from heldout.review.desk import Desk, ReviewSettings, open_desks
from heldout.review.server import PageServer
from heldout.store import Run

_COLUMNS = ("kind", "subject", "cluster", "rater", "verdict", "note", "time")


class Review:
    """A review page that is served until it is closed; what ``heldout.review`` returns.

    Use it as a context manager, or call ``close``. Judgements are on disk when the page shows the next card,
    and stay there.

    Args:
        desks: What is judged.
        port: Port on this machine; 0 takes a free one.
    """

    def __init__(self, desks: Sequence[Desk], port: int = 0) -> None:
        self.desks = tuple(desks)
        self._open = contextlib.ExitStack()
        self._page = self._open.enter_context(PageServer(*desks, port=port))
        self._thread = threading.Thread(target=self._page.run, name="heldout-review", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address, with the key that only this machine's user has."""
        return self._page.url

    @property
    def judgements(self) -> pl.DataFrame:
        """The judgements in force of all raters, a row each; ratings of items are columns."""
        rows: list[dict[str, Any]] = []
        scales: dict[str, None] = {}
        for desk in self.desks:
            clusters = {card.subject: card.cluster for card in desk.cards}
            scales |= dict.fromkeys(scale.name for scale in FORMS[desk.kind].scales)
            for (subject, rater), judgement in desk.judgements().items():
                if subject in clusters:
                    values = (
                        desk.kind,
                        subject,
                        clusters[subject],
                        rater,
                        judgement.verdict,
                        judgement.note,
                        judgement.time,
                    )
                    rows.append({**dict(zip(_COLUMNS, values, strict=True)), **judgement.ratings})
        schema = {**dict.fromkeys(_COLUMNS, pl.String), **dict.fromkeys(scales, pl.Int64)}
        return pl.DataFrame(rows, schema=schema)

    @property
    def agreement(self) -> dict[str, pl.DataFrame]:
        """How far raters agree: tables by title, empty before anybody judged."""
        several = len(self.desks) > 1
        return {
            f"{desk.kind}: {table.title}" if several else table.title: pl.DataFrame(
                table.rows, schema=table.columns, orient="row"
            )
            for desk in self.desks
            for table in desk.tables()
        }

    def wait(self) -> None:
        """Serve until the program is interrupted (Ctrl-C), for scripts."""
        with contextlib.suppress(KeyboardInterrupt):
            self._thread.join()
        self.close()

    def close(self) -> None:
        """Stop serving the page. Judgements stay, and can still be read here."""
        self._page.stop()
        self._thread.join(timeout=10)
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        what = " and ".join(desk.size for desk in self.desks)
        return f"<Review of {self.desks[0].title}: {what}, at {self.url}>"

    def _repr_html_(self) -> str:
        what = " and ".join(desk.size for desk in self.desks)
        address, title = html.escape(self.url), html.escape(self.desks[0].title)
        return f'<p>{what} of {title}: <a href="{address}" target="_blank">{address}</a></p>'


def open_review(
    source: Run | str | Path,
    settings: ReviewSettings | None = None,
    *,
    out: str | Path | None = None,
    browser: bool = False,
    **values: Any,
) -> Review:
    """Serve the page on which people judge matches, texts, twins or items, and return at once.

    ``heldout.review(...)`` is this function, too. Only this machine can open the page.

    Args:
        source: A run, its folder, or (for items) where a benchmark is read from.
        settings: All settings; or give them by name as further arguments.
        out: Where judgements go; default: the run folder, or ``NAME-review`` for a benchmark.
        browser: Open the page in a browser.
        **values: Fields of ``heldout.review.ReviewSettings``.

    Returns:
        The page: ``.url``, ``.judgements``, ``.agreement``, ``.close()``; a context manager.
    """
    chosen = ReviewSettings.choose(settings, values)
    place = str(source.path if isinstance(source, Run) else source)
    review = Review(
        open_desks(place, chosen, out=Path(out) if out is not None else None), chosen.port
    )
    if browser:
        webbrowser.open(review.url)
    return review
