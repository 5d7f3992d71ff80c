"""slot-guess: can a masked word be guessed in the released wording, but not in a paraphrase? (MM-Detect)

The same word is masked in both versions; where a paraphrase does not have it, the pair is left out. Otherwise
the difficulty of another word would look like memory.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from heldout.detect.behaviour.compare import probe_detector
from heldout.detect.behaviour.probe import Arms, Probe, asked, made_arms, readable
from heldout.detect.detector import DENG, SONG
from heldout.detect.finding import NotRecorded
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables

NAME = "slot-guess"
SLOT = "slot"
LACKING = NotRecorded(
    "needs the masked word asked in the released wording ('slot') and in a paraphrase ('slot-…')"
)
OTHER_WORD = "no paraphrase masks the same word as the released wording"


def arms(tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool) -> Arms | str:
    def wanted(name: str) -> bool:
        return name == SLOT or name.startswith(f"{SLOT}-")

    everything = asked(tables, model, wanted)
    if everything.is_empty():
        return LACKING
    word = pl.col("gold").str.strip_chars().str.to_lowercase()
    masked = everything.filter(pl.col("variant") == SLOT).select(
        "benchmark_id", word.alias("masked")
    )
    mine = readable(everything) if leave_out else everything
    kept = mine.join(masked.unique(), on="benchmark_id").filter(word == pl.col("masked"))
    if kept["variant"].n_unique() < 2:
        return OTHER_WORD if everything["variant"].n_unique() > 1 else LACKING
    arms = made_arms(everything, kept, pl.col("variant") == SLOT, LACKING)
    if isinstance(arms, str):
        return arms
    # A paraphrase that masks another word is no second form.
    same = kept.filter(pl.col("variant") != SLOT)["benchmark_id"]
    return replace(arms, changed=frozenset(same))


PROBE = Probe(
    name=NAME,
    first="released wording",
    second="paraphrase",
    effect="share of masked words guessed in the released wording, minus that in a paraphrase",
    arms=arms,
    counted="paraphrases",
    blind_to=[
        "memory of the meaning, which survives a paraphrase",
        "paraphrases that are less natural than the released wording: they look like memory",
    ],
)


DETECTOR = probe_detector(
    PROBE,
    "are masked words of a question guessed better than in a paraphrase?",
    variants=(SLOT, f"{SLOT}-*"),
    asks=SLOT,
    citations=(
        SONG,
        DENG,
    ),
)
