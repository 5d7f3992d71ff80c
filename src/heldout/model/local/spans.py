"""Which tokens are the scored text, by their character offsets."""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[int, int]


def scored_tokens(
    text: str, offsets: Sequence[Span], spans: Sequence[Span]
) -> tuple[list[int], bool]:
    """Places of the tokens that hold scored characters, and whether they hold nothing else but blanks.

    The first token of a sequence is never scored: nothing stands before it to predict it from.
    """
    places: list[int] = []
    clean = True
    covered = [0] * len(spans)
    at = 0
    for place, (start, end) in enumerate(offsets):
        if start == end:  # a token the tokenizer added stands for no characters
            continue
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        touched = []
        look = at
        while look < len(spans) and spans[look][0] < end:
            touched.append(look)
            look += 1
        if not touched:
            continue
        if place == 0:
            clean = False
            continue
        places.append(place)
        reached = start
        for number in touched:
            first, last = spans[number]
            clean &= not text[reached : max(first, reached)].strip()
            covered[number] = max(covered[number], min(end, last))
            reached = max(reached, last)
        clean &= not text[reached:end].strip()
    complete = all(
        not text[reach:last].strip()
        for reach, (_, last) in zip(covered, spans, strict=True)
        if reach
    )
    return places, clean and complete and all(covered)
