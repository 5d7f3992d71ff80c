"""Which texts in Latin letters an English encoder does not know, told by py3langid, whose model lies in its wheel."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from heldout.errors import require
from heldout.weights import check_weights

_LOOK = 1000  # characters of a text that are looked at
# Probability of any other language from which on a text counts as one. Of 12,977 English questions (SLAKE, VQA-RAD,
# PathVQA, GSM8K, MMLU, HumanEval, XQuAD, MGSM) none reaches it; of German, Spanish and Swahili ones .88 to 1.0 do
# (bench/languages.py).
SURE = 0.999
# The share of English texts that may reach it all the same: the upper end of the 95 % interval of 0 in 12,977.
MISTAKEN = 0.00028


def is_foreign(text: str) -> bool:
    """Is this clearly in another language than English?"""
    return foreign_probability(text) >= SURE


def foreign_probability(text: str) -> float:
    """That it is in any other language: neighbours such as Spanish and Catalan share what one of them would have."""
    return 1.0 - float(dict(_identifier().rank(text[:_LOOK]))["en"])


@functools.cache
def _identifier() -> Any:
    require("py3langid", "text", "telling languages apart")
    import py3langid

    package = Path(py3langid.__file__).parent
    check_weights(package, "data", "install it anew: pip install 'heldout[text]'")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
