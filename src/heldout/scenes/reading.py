"""From a question's words back to its probe, so that it can be put to another scene."""

from __future__ import annotations

import re

from heldout.scenes import probes
from heldout.scenes.probes import EDGES, RELATIONS, Phrase, SceneProbe
from heldout.scenes.world import COLOURS, SHAPES

_COLOUR, _SHAPE = "|".join(COLOURS), "|".join(SHAPES)
_PHRASE = rf"(?:(?:{_COLOUR}) )?(?:{_SHAPE}|object)"
_SAID = {words: answer for answer, words in RELATIONS.items()}
_WHOLE = {  # what may stand in the place of a name in the patterns below
    "ONE": f"(?P<one>{_PHRASE})",
    "MANY": f"(?P<one>{_PHRASE})(?:es|s)",
    "OTHER": f"(?P<other>{_PHRASE})",
    "COLOUR": f"(?P<word>{_COLOUR})",
    "EDGE": f"(?P<word>{'|'.join(EDGES)})",
    "SAID": f"(?P<word>{'|'.join(_SAID)})",
}
_PATTERNS = (
    (r"What colour is the ONE\?", lambda one, *_: probes.ColourOf(one)),
    (r"What is the shape of the ONE\?", lambda one, *_: probes.ShapeOf(one)),
    (r"Which texture does the ONE have\?", lambda one, *_: probes.TextureOf(one)),
    (r"How many MANY are there\?", lambda one, *_: probes.CountOf(one)),
    (
        r"Which shape is closest to the EDGE edge of the picture\?",
        lambda one, other, word: probes.Outermost(word),
    ),
    (r"Which shape is the largest object\?", lambda *_: probes.Largest()),
    (
        r"Where is the ONE relative to the OTHER\?",
        lambda one, other, word: probes.RelationOf(one, other),
    ),
    (r"Is there an? ONE in the picture\?", lambda one, *_: probes.IsThere(one)),
    (
        r"Is the ONE larger than the OTHER\?",
        lambda one, other, word: probes.IsLarger(one, other),
    ),
    (
        r"Is the ONE SAID the OTHER\?",
        lambda one, other, word: probes.IsRelated(one, other, _SAID[word]),
    ),
    (r"Is the ONE COLOUR\?", lambda one, other, word: probes.IsColoured(one, word)),
)
_COMPILED = [
    (re.compile(re.sub("ONE|MANY|OTHER|COLOUR|EDGE|SAID", lambda m: _WHOLE[m[0]], pattern)), make)
    for pattern, make in _PATTERNS
]


def read_question(text: str) -> SceneProbe | None:
    """The probe whose text this is; None if no probe asks in these words."""
    for pattern, make in _COMPILED:
        match = pattern.fullmatch(text.strip())
        if match is None:
            continue
        record = match.groupdict()
        probe: SceneProbe = make(
            _phrase(record.get("one")), _phrase(record.get("other")), record.get("word")
        )
        if probe.text == text.strip():
            return probe
    return None


def _phrase(words: str | None) -> Phrase:
    messages = (words or "object").split()
    return Phrase(
        shape=next((word for word in messages if word in SHAPES), None),
        colour=next((word for word in messages if word in COLOURS), None),
    )
