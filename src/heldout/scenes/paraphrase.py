"""The same question in other words, for contamination that no string match finds."""

from __future__ import annotations

import re

_RULES = (
    (r"What colour is the (.+)\?", r"Tell me the colour of the \1."),
    (r"What is the shape of the (.+)\?", r"The \1 has which shape?"),
    (r"Which texture does the (.+) have\?", r"The surface of the \1 looks how?"),
    (r"How many (.+) are there\?", r"Count the \1."),
    (r"Is there (an?) (.+) in the picture\?", r"Does the picture show \1 \2?"),
    (r"Where is the (.+) relative to the (.+)\?", r"Seen from the \2, where does the \1 lie?"),
    (r"Is the (.+) larger than the (.+)\?", r"Is the \2 smaller than the \1?"),
    (r"Which shape is closest to the (.+) edge of the picture\?", r"Nearest to the \1 edge lies what?"),
    (r"Which part of the body does this film show\?", r"What body part was exposed here?"),
    (r"Which side marker does the film carry\?", r"Which letter marks the side?"),
    (r"Which organ is enlarged\?", r"Name the organ that is too large."),
    (r"Which device is visible\?", r"Name the device in this film."),
    (r"Where is the (.+)\?", r"In which place does the \1 lie?"),
    (r"What is in the (.+)\?", r"Name what lies in the \1."),
    (r"Is there a (.+) on the (.+) side\?", r"Does the \2 side show a \1?"),
    (r"Is a (.+) visible\?", r"Can a \1 be seen?"),
    (r"Is the (.+) (\w+)\?", r"Would you call the \1 \2?"),
)  # fmt: skip


def paraphrased(question: str) -> str:
    """By rule where the worlds' questions are known, by a polite opening where they are not."""
    for pattern, other in _RULES:
        found = re.fullmatch(pattern, question)
        if found is not None:
            return found.expand(other)
    words = question.strip()
    return f"Please look and tell: {words[:1].lower()}{words[1:]}"
