"""choice-confusion: wrong options are replaced by right answers of other items.

They do not fit the question, so the item gets easier; for a model that remembers answers without their
questions it gets harder.
"""

from __future__ import annotations

from heldout.detect.behaviour.compare import probe_detector
from heldout.detect.behaviour.probe import ORIGINAL, Probe, two_variants
from heldout.detect.detector import YAO
from heldout.detect.finding import NotRecorded

NAME = "choice-confusion"
CONFUSED = "confused-choices"
LACKING = NotRecorded(
    f"needs answers among confused choices: heldout ask --variants original,{CONFUSED}"
)

PROBE = Probe(
    name=NAME,
    first=ORIGINAL,
    second=CONFUSED,
    counted="items with confused choices",
    effect="drop from the original to confused choices",
    arms=two_variants(ORIGINAL, lambda name: name == CONFUSED, LACKING),
    blind_to=[
        "memory that ties an answer to its question",
        "mild contamination: confused choices are easier, and a clean model gains by them",
    ],
)


DETECTOR = probe_detector(
    PROBE,
    "do right answers of other items, as wrong options, make it harder?",
    variants=(ORIGINAL, CONFUSED),
    asks=CONFUSED,
    citations=(YAO,),
)
