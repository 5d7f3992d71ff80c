"""Prompt templates: the sentences a class name is put into."""

from __future__ import annotations

from pathlib import Path

from heldout.errors import InputError

# CLIP's prompts for ImageNet, word for word (github.com/openai/CLIP, Prompt_Engineering_for_ImageNet).
IMAGENET_80 = (
    "a bad photo of a {}.", "a photo of many {}.", "a sculpture of a {}.",
    "a photo of the hard to see {}.", "a low resolution photo of the {}.", "a rendering of a {}.",
    "graffiti of a {}.", "a bad photo of the {}.", "a cropped photo of the {}.", "a tattoo of a {}.",
    "the embroidered {}.", "a photo of a hard to see {}.", "a bright photo of a {}.",
    "a photo of a clean {}.", "a photo of a dirty {}.", "a dark photo of the {}.",
    "a drawing of a {}.", "a photo of my {}.", "the plastic {}.", "a photo of the cool {}.",
    "a close-up photo of a {}.", "a black and white photo of the {}.", "a painting of the {}.",
    "a painting of a {}.", "a pixelated photo of the {}.", "a sculpture of the {}.",
    "a bright photo of the {}.", "a cropped photo of a {}.", "a plastic {}.",
    "a photo of the dirty {}.", "a jpeg corrupted photo of a {}.", "a blurry photo of the {}.",
    "a photo of the {}.", "a good photo of the {}.", "a rendering of the {}.",
    "a {} in a video game.", "a photo of one {}.", "a doodle of a {}.",
    "a close-up photo of the {}.", "a photo of a {}.", "the origami {}.", "the {} in a video game.",
    "a sketch of a {}.", "a doodle of the {}.", "a origami {}.", "a low resolution photo of a {}.",
    "the toy {}.", "a rendition of the {}.", "a photo of the clean {}.", "a photo of a large {}.",
    "a rendition of a {}.", "a photo of a nice {}.", "a photo of a weird {}.",
    "a blurry photo of a {}.", "a cartoon {}.", "art of a {}.", "a sketch of the {}.",
    "a embroidered {}.", "a pixelated photo of a {}.", "itap of the {}.",
    "a jpeg corrupted photo of the {}.", "a good photo of a {}.", "a plushie {}.",
    "a photo of the nice {}.", "a photo of the small {}.", "a photo of the weird {}.",
    "the cartoon {}.", "art of the {}.", "a drawing of the {}.", "a photo of the large {}.",
    "a black and white photo of a {}.", "the plushie {}.", "a dark photo of a {}.", "itap of a {}.",
    "graffiti of the {}.", "a toy {}.", "itap of my {}.", "a photo of a cool {}.",
    "a photo of a small {}.", "a tattoo of the {}.",
)  # fmt: skip
# The seven that the same notebook selects from them.
OPENAI_7 = (
    "itap of a {}.", "a bad photo of the {}.", "a origami {}.", "a photo of the large {}.",
    "a {} in a video game.", "art of the {}.", "a photo of the small {}.",
)  # fmt: skip
NAMED = {"imagenet-80": IMAGENET_80, "openai-7": OPENAI_7, "simple": ("a photo of a {}.",)}


def read_templates(setting: str) -> tuple[str, ...]:
    """Templates by their name, from a file with one per line, or the one that ``setting`` is."""
    if setting in NAMED:
        return NAMED[setting]
    if "{}" in setting:
        return (setting,)
    path = Path(setting)
    if not path.is_file():
        raise InputError(
            f"templates '{setting}': expected one of {', '.join(NAMED)}, a text file with one template "
            f"per line, or a template with {{}} where the class name goes"
        )
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable text file ({error})") from error
    found = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    for number, line in enumerate(lines, 1):
        if line in found and line.count("{}") != 1:
            raise InputError(
                f"{path} line {number}: expected one {{}} where the class name goes, found '{line}'"
            )
    if not found:
        raise InputError(f"{path}: expected one template per line; it holds none")
    return found


def prompts(template: str, name: str) -> str:
    return template.replace("{}", name)
