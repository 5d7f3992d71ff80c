"""What an image edit endpoint is sent: the words, and a form that holds them and the picture."""

from __future__ import annotations

import io
import secrets
from collections.abc import Mapping

from PIL import Image

from heldout.twin.renderer import RenderTask

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
    border = secrets.token_hex(16)  # 128 random bits do not turn up in what they divide
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
