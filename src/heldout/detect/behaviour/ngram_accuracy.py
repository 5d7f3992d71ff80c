"""ngram-accuracy: can a model go on with the released wording word for word, but not with a paraphrase?

The beginning of a question is shown and its next words are asked for, in the released wording and in a
paraphrase (Xu et al., 2024). A text that anybody could go on with is as easy in both.
"""

from __future__ import annotations

import polars as pl

from heldout.detect.behaviour.compare import probe_detector
from heldout.detect.behaviour.probe import Arms, Probe, asked, made_arms
from heldout.detect.detector import XU
from heldout.detect.finding import NotRecorded
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables

NAME = "ngram-accuracy"
NGRAM = "ngram"
LACKING = NotRecorded(
    "needs the next words asked for in the released wording ('ngram') and in a paraphrase ('ngram-…')"
)


def arms(tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool) -> Arms | str:
    def wanted(name: str) -> bool:
        return name == NGRAM or name.startswith(f"{NGRAM}-")

    everything = asked(tables, model, wanted)
    if everything.is_empty():
        return LACKING
    kept = asked(tables, model, wanted, leave_out=leave_out)
    return made_arms(everything, kept, pl.col("variant") == NGRAM, LACKING)


PROBE = Probe(
    name=NAME,
    first="released wording",
    second="paraphrase",
    effect="share of questions continued word for word, minus that of their paraphrases",
    arms=arms,
    counted="paraphrases",
    blind_to=[
        "memory of pictures and answers without the wording",
        "memory of another wording than the released one",
        "paraphrases that are less natural than the released wording: they look like memory",
    ],
)


DETECTOR = probe_detector(
    PROBE,
    "are the next words of a question guessed better than in a paraphrase?",
    variants=(NGRAM, f"{NGRAM}-*"),
    asks=NGRAM,
    citations=(XU,),
)
