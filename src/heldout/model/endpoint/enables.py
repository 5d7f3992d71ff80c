"""Which detectors an endpoint's log-probabilities are enough for, and what the others lack."""

from __future__ import annotations

from typing import NamedTuple

from heldout.model.endpoint.capabilities import Capabilities

#: need nothing but the answers' log-probabilities; what else they need, in words
ANSWERS = {
    "order-trend": "",
    "loss": "and items that nobody can have seen",
    "min-k": "and items that nobody can have seen",
    "zlib": "and items that nobody can have seen",
    "perplexity-ratio": "and a reference model scored the same way",
    "tail-enrichment": "and three models scored the same way",
    "top-k-overlap": "and two models scored the same way",
}
DOCUMENTS = ("order-joint", "order-neighbour")
VOCABULARY = ("min-k++", "max-renyi-k")
NOTHING = ("blind",)


class Enabled(NamedTuple):
    detector: str
    enabled: bool
    reason: str


def enables(can: Capabilities) -> list[Enabled]:
    answers = can.chat.works or can.completions.works
    if can.chat.works and can.images.works:
        how = "answers after picture and question"
    elif can.chat.works:
        how = f"text-only benchmarks alone: pictures: {can.images.reason}"
    elif answers:
        how = "text-only benchmarks alone, as plain documents without the model's chat template"
    else:
        how = f"no log-probabilities of answers: {can.chat.reason}"
    plain = can.completions
    documents = "text documents, without pictures" if plain.works else f"plain text: {plain.reason}"
    vocabulary = (
        "the mean and spread of log p over the whole vocabulary, which no endpoint tells: score the "
        "model with --model FOLDER"
    )
    return [
        *(Enabled(one, plain.works, documents) for one in DOCUMENTS),
        *(Enabled(one, answers, f"{how} {more}".strip()) for one, more in ANSWERS.items()),
        *(Enabled(one, False, f"needs {vocabulary}") for one in VOCABULARY),
        *(Enabled(one, True, "needs no model") for one in NOTHING),
    ]
