"""What the describer and the verifier read: versioned, in the spirit of the paper's two prompts."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmark import letter
from heldout.image import ImageRef
from heldout.model import Prompt, Request, Text

# Part of every caption's and every verdict's identity. Raise it with any change of what is read.
DESCRIBE_TEMPLATE = "heldout-describe/1"
VERIFY_TEMPLATE = "heldout-verify/1"

_DESCRIBE = """\
Here are a picture and a question about it.

{asked}

In this picture the right answer is: {old}
Now imagine another picture, as near to this one as possible, in which the right answer is: {new}
{others}
Describe that other picture in a dense caption, from which somebody who has seen neither of the two could \
draw it: the kind of picture, the viewpoint and the layout; everything in it with its place, number, size, \
colour and texture; any text that can be read. Whatever makes the new answer right must be plain to see. \
Keep everything that the new answer does not force to change. Do not mention the question, the options, \
the first picture, or that anything was changed.

Reply with the caption alone, in at most {words} words."""

_VERIFY = """\
Here are a picture and a question about it.

{asked}

The answer is said to be: {new}

Decide whether the question can be answered from this picture, and whether that answer is right. It must \
follow from what can be seen, and no other answer{options} may be right as well, or as likely. If there is \
any doubt, the item is rejected. How natural or beautiful the picture is does not matter.

Reason first: say what the picture shows, what the right answer is, and why. Then end with a last line \
that holds a single word, KEEP or REJECT."""


def describe_prompt(
    identifier: str,
    picture: ImageRef,
    question: str,
    options: Sequence[str],
    old: str,
    new: str,
    words: int,
) -> Prompt:
    others = "Every other option is wrong there.\n" if options else ""
    text = _DESCRIBE.format(
        asked=_asked(question, options), old=old, new=new, others=others, words=words
    )
    return Prompt(Request(identifier, (picture, Text(text))))


def verify_prompt(
    identifier: str, picture: ImageRef, question: str, options: Sequence[str], new: str
) -> Prompt:
    among = " among the options" if options else ""
    text = _VERIFY.format(asked=_asked(question, options), new=new, options=among)
    return Prompt(Request(identifier, (picture, Text(text))))


def _asked(question: str, options: Sequence[str]) -> str:
    lines = [f"{letter(place)}. {option}" for place, option in enumerate(options)]
    return "\n".join([f"Question: {question}", *(["Options:"] if lines else []), *lines])
