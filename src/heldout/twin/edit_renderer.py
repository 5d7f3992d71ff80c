"""An OpenAI-compatible image edit endpoint as a renderer: POST /images/edits, one picture a request."""

from __future__ import annotations

import base64
import binascii
import io
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from heldout.errors import InputError
from heldout.image import ImageError, decode, to_rgb
from heldout.model import Connection, EndpointError, RefusedError, ServerWatch, UnansweredError
from heldout.twin.renderers import RenderError, RenderTask

# What an image edit endpoint answered: one picture and what it cost, or the reason why not.


MOST_PIXELS = 2**26  # 8192 x 8192: more than any endpoint draws, little enough to unpack
_NO_PICTURE = "no picture in the answer"


def read_picture(answer: Any) -> Image.Image:
    """The first picture, RGB. URLs are not fetched: they could lead anywhere."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(first, dict):
        raise RenderError(_NO_PICTURE, f"{str(answer)[:120]!r}")
    text, url = first.get("b64_json"), first.get("url")
    if not isinstance(text, str) and isinstance(url, str):
        head, comma, text = url.partition(",")
        if not (head.startswith("data:image/") and head.endswith(";base64") and comma):
            raise RenderError(
                "a picture behind an address",
                f"{url[:80]!r} is not fetched: b64_json was asked for",
            )
    if not isinstance(text, str) or not text:
        raise RenderError(_NO_PICTURE, f"its fields: {', '.join(map(str, first))[:120]}")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RenderError("not base64", f"{error}: {text[:40]!r}") from error
    try:
        return to_rgb(decode(data, max_pixels=MOST_PIXELS))
    except ImageError as error:
        raise RenderError(error.reason, error.detail) from error


def read_tokens(answer: Any) -> tuple[int, int]:
    """Tokens read and written, 0 where the endpoint does not say."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    read = usage.get("input_tokens", usage.get("prompt_tokens"))
    written = usage.get("output_tokens", usage.get("completion_tokens"))
    return _count(read), _count(written)


def _count(value: Any) -> int:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9
    return value if known else 0


# What an image edit endpoint is sent: the words, and a form that holds them and the picture.


TEMPLATE = "edit/1"  # changes with the words below: twins of another template are other twins
_WORDS = """\
Edit this picture as little as possible, so that another answer to the question below becomes right.
Question: {question}
Right answer at present: {old_answer}
Right answer in the edited picture, and the only right one: {new_answer}
{caption}Keep the composition, the viewpoint, the style and all that the question is not about. Write \
neither the question nor an answer into the picture."""


def edit_prompt(task: RenderTask) -> str:
    caption = task.caption.strip()
    return _WORDS.format(
        question=task.question.strip(),
        old_answer=task.old_answer.strip(),
        new_answer=task.new_answer.strip(),
        caption=f"The edited picture: {caption}\n" if caption else "",
    )


def form(fields: Mapping[str, str], picture: Image.Image) -> tuple[bytes, str]:
    """The body of a multipart/form-data request, and its content type."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    border = secrets.token_hex(16)  # 128 random bits do not occur in the data that they separate
    parts = []
    for name, value in fields.items():
        head = f'Content-Disposition: form-data; name="{name}"\r\n\r\n'
        parts.append(head.encode() + value.encode(errors="replace"))
    head = (
        'Content-Disposition: form-data; name="image"; filename="image.png"\r\n'
        "Content-Type: image/png\r\n\r\n"
    )
    parts.append(head.encode() + buffer.getvalue())
    lines = b"".join(f"--{border}\r\n".encode() + part + b"\r\n" for part in parts)
    return lines + f"--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"


# Fit a picture into one of the sizes an endpoint draws, and cut its answer back to the original's.


Size = tuple[int, int]
_SHAPE = 0.02  # by how much the answer's width over height may differ from what was sent


@dataclass(frozen=True)
class FramedPicture:
    """``picture`` is what is sent; ``box`` is where the original lies in it."""

    picture: Image.Image
    box: tuple[int, int, int, int]
    size: Size  # of the original

    def unframe(self, answer: Image.Image) -> Image.Image:
        """The original's part of the answer, at the original's size."""
        sent = self.picture
        if abs(answer.width * sent.height / (answer.height * sent.width) - 1) > _SHAPE:
            raise RenderError(
                "a picture of another shape",
                f"{answer.width} x {answer.height} for {sent.width} x {sent.height}",
            )
        across, down = answer.width / sent.width, answer.height / sent.height
        left, top, right, bottom = self.box
        box = (left * across, top * down, right * across, bottom * down)
        if answer.size == self.size == sent.size:
            return answer
        return answer.resize(self.size, Image.Resampling.LANCZOS, box=box)


def frame(picture: Image.Image, sizes: Sequence[Size]) -> FramedPicture:
    """In the size whose shape wastes least, the rest white; as it is, where there are no sizes."""
    if not sizes:
        return FramedPicture(picture, (0, 0, *picture.size), picture.size)

    def scale(size: Size) -> float:
        return min(size[0] / picture.width, size[1] / picture.height)

    def used(size: Size) -> float:
        return scale(size) ** 2 * picture.width * picture.height / (size[0] * size[1])

    chosen = max(sizes, key=used)
    if chosen == picture.size:
        return FramedPicture(picture, (0, 0, *picture.size), picture.size)
    factor = scale(chosen)
    width, height = (max(1, round(side * factor)) for side in picture.size)
    left, top = (chosen[0] - width) // 2, (chosen[1] - height) // 2
    canvas = Image.new("RGB", chosen, "white")
    canvas.paste(picture.resize((width, height), Image.Resampling.LANCZOS), (left, top))
    return FramedPicture(canvas, (left, top, left + width, top + height), picture.size)


def parse_sizes(text: str) -> tuple[Size, ...]:
    """'1024x1024,1536x1024' as sizes; '' is none."""
    sizes = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\d{2,5})x(\d{2,5})", part)
        if match is None:
            raise InputError(f"size '{part}': expected WIDTHxHEIGHT, for example 1024x1024")
        sizes.append((int(match[1]), int(match[2])))
    return tuple(sizes)


EDITS = "/images/edits"
SIZES: tuple[Size, ...] = ((1024, 1024), (1536, 1024), (1024, 1536))
_UNREADABLE = 3  # attempts at an answer that is no JSON: a proxy cut it, and the next may be whole
_REFUSED = "refused by the endpoint"
_POLICY = ("safety", "policy", "policies", "moderation", "content filter", "content_filter")


@dataclass(frozen=True)
class Spent:
    """What was paid for, pictures that could not be used included; tokens where the endpoint tells."""

    pictures: int = 0
    tokens_read: int = 0
    tokens_written: int = 0


@dataclass
class EditRenderer:
    """Safe to use from several threads. ``sizes``: what the endpoint draws; the original is fitted into
    the best of them and cut out of the answer; with none, it is sent as it is. ``extra``: further
    fields of the form, such as quality=high."""

    connection: Connection
    model: str
    sizes: tuple[Size, ...] = SIZES
    extra: Mapping[str, str] = field(default_factory=dict)
    name: str = "edit"
    _spent: Spent = field(default=Spent(), repr=False)
    _asks_for_data: bool = field(default=True, repr=False)
    _watch: ServerWatch = field(default_factory=ServerWatch, repr=False)
    _answered: tuple[dict[str, str], Image.Image] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {
            "renderer": self.name,
            "endpoint": self.connection.url,
            "model": self.model,
            "template": TEMPLATE,
            "sizes": [f"{width}x{height}" for width, height in self.sizes],
            "extra": dict(self.extra),
        }

    @property
    def spent(self) -> Spent:
        return self._spent

    def render(self, task: RenderTask) -> Image.Image:
        framed = frame(task.original, self.sizes)
        fields = {"model": self.model, "prompt": edit_prompt(task), "n": "1", **self.extra}
        if self.sizes:
            fields["size"] = f"{framed.picture.width}x{framed.picture.height}"
        answer = self._asked(fields, framed.picture)
        read, written = read_tokens(answer)
        self._watch.succeeded()
        self._answered = fields, framed.picture
        with self._lock:
            spent = self._spent
            self._spent = Spent(
                spent.pictures + 1, spent.tokens_read + read, spent.tokens_written + written
            )
        return framed.unframe(read_picture(answer))

    def _asked(self, fields: dict[str, str], picture: Image.Image) -> Any:
        problem: RefusedError | None = None
        attempts = _UNREADABLE
        while attempts:
            asks = self._asks_for_data
            body = form({**fields, "response_format": "b64_json"} if asks else fields, picture)
            try:
                return self.connection.post_form(EDITS, *body)
            except RefusedError as refused:
                problem = refused
                if asks and refused.status == 400 and "response_format" in refused.detail:
                    self._asks_for_data = False  # some send data always, and refuse to be asked
                    continue
                if refused.status:
                    break
                attempts -= 1
            except UnansweredError as silent:
                problem = self._watch.unanswered(self.connection, silent, self._again)
                break
        assert problem is not None
        raise self._refused(problem) from problem

    def _refused(self, refused: RefusedError) -> RenderError | EndpointError:
        url = self.connection.url
        if refused.status == 404:
            return EndpointError(
                f"{url}{EDITS} is not there, or not for {self.model}: {refused.detail}"
            )
        message = f"status {refused.status}: {refused.detail}" if refused.status else refused.detail
        broken = refused.status >= 500 or refused.status == 0
        if not broken and any(word in refused.detail.lower() for word in _POLICY):
            return RenderError(_REFUSED, message)  # the item's fault, however many there are
        self._watch.refused(self.connection, refused, self._again, units="pictures")
        return RenderError("the endpoint failed" if broken else _REFUSED, message)

    @property
    def _again(self) -> Callable[[Connection], object] | None:
        """Asks once more for a picture that was drawn before, which is paid for; None without one."""
        if self._answered is None:
            return None
        fields, picture = self._answered
        if self._asks_for_data:
            fields = {**fields, "response_format": "b64_json"}
        return lambda connection: connection.post_form(EDITS, *form(fields, picture))
