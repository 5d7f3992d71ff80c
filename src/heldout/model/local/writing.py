"""From a request to the text a model reads: its chat template, or a plain form where it has none.

A text is kept as what stands between its pictures, and the answer apart: the processor never sees the
answer, because some processors add text after the prompt, and some models pass the prompt to their vision part.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from heldout.image import ImageRef
from heldout.model.local.load import Family
from heldout.model.local.templates import TemplateError, render_turns
from heldout.model.request import Request, Text

_BETWEEN = ("heldoutleft", "heldoutright")


class UnwritableError(Exception):
    """A request that cannot be written for this model: reason and detail of a Dropped."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class WrittenPrompt:
    """``segments`` stand before, between and after the pictures; ``answer`` follows the last one.

    ``spans`` are the scored characters as (segment, start, end); the segment after the last is the
    answer."""

    segments: tuple[str, ...]
    answer: str
    spans: tuple[tuple[int, int, int], ...]


class Writer:
    def __init__(self, processor: Any, tokenizer: Any, family: Family) -> None:
        self._processor = processor
        self._family = family
        token = getattr(processor, "image_token", None) or "<image>"
        self.placeholder = str(getattr(token, "content", token))
        special = {str(name) for name in tokenizer.all_special_tokens} | {self.placeholder}
        special |= {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
        self._special = re.compile("|".join(re.escape(name) for name in sorted(special) if name))
        self._ends = tuple(name for name in special if name)
        template = getattr(processor, "chat_template", None)
        self._chat = bool(template)
        self.form = (
            f"chat {hashlib.sha256(str(template).encode()).hexdigest()[:12]}"
            if template
            else family.form
        )
        self._picture = self._document_picture()
        self._opening = _opening(tokenizer)

    def write(self, request: Request) -> WrittenPrompt:
        self._check(request)
        if request.turn:
            return self._turn(request)
        return self._document(request)

    def write_prompt(self, request: Request) -> WrittenPrompt:
        """A user's turn that waits for its reply."""
        self._check(request, answered=False)
        shown = request.content
        return WrittenPrompt(self._chatted(shown) if self._chat else self._plain(shown), "", ())

    def _check(self, request: Request, *, answered: bool = True) -> None:
        if answered and not request.target.strip():
            raise UnwritableError("nothing to score", "the answer is empty")
        pictures = len(request.images)
        if self._family.needs_picture and not pictures:
            raise UnwritableError("model needs a picture", "this family cannot read text alone")
        most = self._family.most_pictures
        if most is not None and pictures > most:
            raise UnwritableError("too many pictures", f"{pictures}, this family takes {most}")
        # Two adjacent parts may together spell a special token.
        text = "".join(p.text if isinstance(p, Text) else "\n" for p in request.content)
        if match := self._special.search(text):
            detail = f"the text holds {match[0]!r}, which this model does not read as text"
            raise UnwritableError("special token in the text", detail)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UnwritableError("not Unicode text", str(error)) from error

    def _turn(self, request: Request) -> WrittenPrompt:
        scored = [part for part in request.content if isinstance(part, Text) and part.scored]
        if len(scored) != 1 or request.content[-1] is not scored[0]:
            raise UnwritableError(
                "not a turn", "the scored text must be the last part and the only one"
            )
        shown = request.content[:-1]
        segments = self._chatted(shown) if self._chat else self._plain(shown)
        prompt = segments[-1] + self._family.closing
        # "Answer:" is followed by a blank, which belongs to the answer's first token.
        glued = not prompt or prompt[-1].isspace() or prompt.endswith(self._ends)
        blank = "" if glued else " "
        answer = blank + scored[0].text
        return WrittenPrompt(segments, answer, ((len(segments), len(blank), len(answer)),))

    def _chatted(self, shown: tuple[ImageRef | Text, ...]) -> tuple[str, ...]:
        content = [
            {"type": "image"} if isinstance(part, ImageRef) else {"type": "text", "text": part.text}
            for part in shown
        ]
        rendered = self._render(content or [{"type": "text", "text": ""}])
        segments = tuple(rendered.split(self.placeholder))
        pictures = sum(isinstance(part, ImageRef) for part in shown)
        if len(segments) != pictures + 1:
            raise UnwritableError(
                "chat template",
                f"the model's chat template writes {len(segments) - 1} pictures where {pictures} are",
            )
        return segments

    def _render(self, content: list[dict[str, str]]) -> str:
        turn = [{"role": "user", "content": content}]
        try:
            return render_turns(self._processor, turn, add_generation_prompt=True)
        except TemplateError as error:
            raise UnwritableError("chat template", str(error)) from error

    def _plain(self, shown: tuple[ImageRef | Text, ...]) -> tuple[str, ...]:
        before, _, after = self._family.form.partition("{}")
        pictures = sum(isinstance(part, ImageRef) for part in shown)
        words = " ".join(part.text for part in shown if isinstance(part, Text))
        return (*("" for _ in range(pictures)), f"{before}{words}{after}")

    def _document(self, request: Request) -> WrittenPrompt:
        before, after = self._picture
        segments = [self._opening]
        spans = []
        for part in request.content:
            if isinstance(part, ImageRef):
                segments[-1] += before
                segments.append(after)
                continue
            start = len(segments[-1])
            segments[-1] += part.text
            if part.scored and part.text:
                spans.append((len(segments) - 1, start, len(segments[-1])))
        return WrittenPrompt(tuple(segments), "", tuple(spans))

    def _document_picture(self) -> tuple[str, str]:
        """What the model's chat template writes around a picture in the middle of a text."""
        if self._chat:
            left, right = ({"type": "text", "text": word} for word in _BETWEEN)
            try:
                rendered = self._render([left, {"type": "image"}, right])
            except UnwritableError:
                return "", ""
            inside = rendered.partition(_BETWEEN[0])[2].partition(_BETWEEN[1])[0]
            before, placeholder, after = inside.partition(self.placeholder)
            if placeholder:
                return before, after
        return "", ""


def _opening(tokenizer: Any) -> str:
    """A token to predict a document's first one from, where the tokenizer puts none there itself.

    The end-of-text token, as is usual for models without a token for the beginning: without it the first token
    of a document could not be scored, and which token that is depends on the order of items.
    """
    first = tokenizer("x")["input_ids"][0]
    if first in tokenizer.all_special_ids:
        return ""
    return str(tokenizer.bos_token or tokenizer.eos_token or "")
