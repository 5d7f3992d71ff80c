"""Copies and decoys made of real pictures, for bench/pictures.py; the same from the same seed."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from heldout.scenes import FILMS, SCENES, watermark

Picture = Image.Image
Draw = np.random.Generator
GUTTERS = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "grey": (128, 128, 128),
    "blue": (24, 40, 96),
}
INKS = ((255, 255, 255), (0, 0, 0), (200, 30, 30))
WORDS = ("SAMPLE COPY", "radiology.example", "PREVIEW", "© Archive 2019", "Do not copy")


def jpeg(picture: Picture, quality: int) -> Picture:
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, "JPEG", quality=quality)
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def cropped(picture: Picture, draw: Draw) -> tuple[Picture, float]:
    """15 to 60 % of the area, anywhere, shown at another size and compressed; and the share."""
    share = float(draw.uniform(0.15, 0.60))
    wide = float(np.sqrt(share * draw.uniform(0.75, 1.33)))
    wide = min(wide, 0.98)
    tall = min(share / wide, 0.98)
    width, height = round(picture.width * wide), round(picture.height * tall)
    left = int(draw.integers(picture.width - width + 1))
    top = int(draw.integers(picture.height - height + 1))
    part = picture.crop((left, top, left + width, top + height))
    side = int(draw.integers(224, 513))
    scale = min(1.0, side / max(part.size))
    size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
    return jpeg(part.resize(size, Image.Resampling.LANCZOS), int(draw.integers(75, 96))), share


def compounded(
    picture: Picture, draw: Draw, others: Sequence[Picture], colour: tuple[int, int, int]
) -> Picture:
    """A page of two to six panels with gutters of one colour, and letters in the gutters or panels."""
    count = int(draw.choice([2, 3, 4, 6]))
    columns = {2: 2, 3: 3, 4: 2, 6: 3}[count]
    rows = count // columns
    cell = int(draw.integers(220, 420))
    gutter = int(draw.integers(8, 26))
    page = Image.new(
        "RGB", (columns * (cell + gutter) + gutter, rows * (cell + gutter) + gutter), colour
    )
    place = int(draw.integers(count))
    pen = ImageDraw.Draw(page)
    light = sum(colour) < 384
    in_gutter = bool(draw.integers(2))
    for index in range(count):
        shown = picture if index == place else others[index % len(others)]
        scale = cell / max(shown.size)
        size = (max(1, round(shown.width * scale)), max(1, round(shown.height * scale)))
        panel = shown.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        x = gutter + index % columns * (cell + gutter)
        y = gutter + index // columns * (cell + gutter)
        page.paste(panel, (x + (cell - size[0]) // 2, y + (cell - size[1]) // 2))
        font = ImageFont.load_default(size=float(max(10, gutter - 4 if in_gutter else 18)))
        corner = (x + 2, y - gutter + 1) if in_gutter else (x + 4, y + 2)
        pen.text(corner, "ABCDEF"[index], font=font, fill="white" if light else "black")
    return jpeg(page, int(draw.integers(80, 96)))


def opaque_mark(picture: Picture, draw: Draw) -> Picture:
    """Opaque words of one colour somewhere on the picture."""
    marked = picture.convert("RGB")
    words = WORDS[int(draw.integers(len(WORDS)))]
    size = float(draw.uniform(0.6, 1.5)) * marked.width / len(words)
    font = ImageFont.load_default(size=max(10.0, size))
    place = (
        marked.width * float(draw.uniform(0.02, 0.2)),
        marked.height * float(draw.uniform(0.1, 0.8)),
    )
    ink = INKS[int(draw.integers(len(INKS)))]
    ImageDraw.Draw(marked).text(place, words, fill=ink, font=font)
    return jpeg(marked, int(draw.integers(80, 96)))


def translucent_mark(picture: Picture, draw: Draw) -> Picture:
    return jpeg(watermark(picture.convert("RGB"), draw), int(draw.integers(80, 96)))


def _curve(
    power: float = 1.0, gain: float = 1.0, offset: float = 0.0
) -> Callable[[Picture], Picture]:
    levels = 255 * (gain * (np.arange(256) / 255) ** power + offset)
    return lambda picture: picture.point(np.clip(np.rint(levels), 0, 255).astype(int).tolist() * 3)


TONES: dict[str, Callable[[Picture], Picture]] = {
    "gamma of 0.5": _curve(0.5),
    "gamma of 2": _curve(2.0),
    "contrast 1.5 times, clipped": _curve(1.0, 1.5, -0.25),
    "histogram equalised": ImageOps.equalize,
}


def opacity(picture: Picture, draw: Draw, levels: float = 40.0) -> Picture:
    """A decoy: a place that is lighter, or darker, without an edge."""
    side = min(picture.size) * float(draw.uniform(0.04, 0.08))
    across, down = (float(draw.uniform(0.3, 0.7)) * length for length in picture.size)
    y, x = np.mgrid[: picture.height, : picture.width]
    spot = np.exp(-((x - across) ** 2 + (y - down) ** 2) / (2 * side**2))
    way = 1.0 if np.asarray(picture.convert("L"))[int(down), int(across)] < 128 else -1.0
    greys = np.asarray(picture.convert("RGB"), np.float32) + way * levels * spot[..., None]
    return Image.fromarray(np.clip(greys, 0, 255).astype(np.uint8))


VISIBLE = 32.0  # grey levels, of most of the changed piece


def changed_object(picture: Picture, draw: Draw, other: Picture) -> Picture:
    """A decoy that can be seen to be another picture, compressed."""
    return jpeg(changed_plainly(picture, draw, other), int(draw.integers(80, 96)))


def changed_plainly(picture: Picture, draw: Draw, other: Picture) -> Picture:
    before = np.asarray(picture.convert("L"), np.float32)
    while True:
        changed, (x, y, side) = _changed(picture, draw, other)
        after = np.asarray(changed.convert("L"), np.float32)
        place = np.s_[y : y + side, x : x + side]
        if np.percentile(np.abs(after - before)[place], 70) > VISIBLE:
            return changed


def _changed(picture: Picture, draw: Draw, other: Picture) -> tuple[Picture, tuple[int, int, int]]:
    """A lesion painted in, a piece of another film pasted in, or a piece wiped out; and where."""
    changed = picture.convert("RGB")
    side = round(min(changed.size) * float(draw.uniform(0.08, 0.22)))
    x = int(
        draw.integers(
            changed.width // 6, max(changed.width // 6 + 1, changed.width * 5 // 6 - side)
        )
    )
    y = int(
        draw.integers(
            changed.height // 6, max(changed.height // 6 + 1, changed.height * 5 // 6 - side)
        )
    )
    mask = Image.new("L", (side, side), 0)
    ImageDraw.Draw(mask).ellipse((side * 0.08, side * 0.08, side * 0.92, side * 0.92), fill=255)
    mask = mask.filter(ImageFilter.GaussianBlur(side / 16))
    way = int(draw.integers(3))
    if way == 0:
        level = int(draw.integers(60, 256))
        patch = Image.new("RGB", (side, side), (level,) * 3)
    elif way == 1:
        scale = float(draw.uniform(0.4, 0.8))
        wide = max(side, round(other.width * scale))
        tall = max(side, round(other.height * scale))
        source = other.convert("RGB").resize((wide, tall))
        left, top = int(draw.integers(wide - side + 1)), int(draw.integers(tall - side + 1))
        patch = source.crop((left, top, left + side, top + side))
    else:
        patch = changed.crop((x, y, x + side, y + side)).filter(ImageFilter.GaussianBlur(side / 3))
    changed.paste(patch, (x, y), mask)
    return changed, (x, y, side)


def small_copy(picture: Picture, draw: Draw, side: int = 32) -> tuple[Picture, Picture]:
    """A picture at ``side`` pixels and a near-duplicate: another cut of it, other light, compressed."""
    square = picture.convert("RGB").resize((side * 4, side * 4), Image.Resampling.LANCZOS)
    plain = square.resize((side, side), Image.Resampling.LANCZOS)
    share = float(draw.uniform(0.88, 1.0))
    kept = round(side * 4 * share)
    left, top = (int(draw.integers(side * 4 - kept + 1)) for _ in range(2))
    copy = square.crop((left, top, left + kept, top + kept))
    copy = copy.resize((side, side), Image.Resampling.LANCZOS)
    copy = ImageEnhance.Brightness(copy).enhance(float(draw.uniform(0.85, 1.15)))
    copy = ImageEnhance.Contrast(copy).enhance(float(draw.uniform(0.85, 1.15)))
    return plain, jpeg(copy, int(draw.integers(80, 97)))


# Charts: a template draws axes, grid, title and legend alike; only the values differ.


def labelled_bars(draw: Draw) -> tuple[Picture, Picture]:
    """A chart with a figure over each bar, and the same with one bar a little higher or lower and its figure."""
    size = (int(draw.integers(480, 900)), int(draw.integers(340, 560)))
    count, points = int(draw.integers(4, 9)), float(draw.integers(12, 23))
    grey = int(draw.integers(190, 240)) if draw.random() < 0.5 else None  # of lines behind the bars
    values = draw.integers(12, 90, count)
    changed = values.copy()
    step = int(draw.integers(1, 9))
    changed[draw.integers(count)] += step if draw.random() < 0.5 else -step
    inks = draw.integers(30, 220, (count, 3)) if draw.random() < 0.5 else None
    title = f"{('Rainfall', 'Exports', 'Births', 'Wages')[draw.integers(4)]} in {draw.integers(1950, 2020)}"

    def page(heights: Sequence[int]) -> Picture:
        sheet = Image.new("RGB", size, "white")
        pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=points)
        left, top, right, bottom = 50, 50, size[0] - 20, size[1] - 50
        for tick in range(1, 6) if grey is not None else ():
            line = bottom - (bottom - top) * tick // 5
            pen.line((left, line, right, line), fill=f"rgb({grey}, {grey}, {grey})")
        pen.text((size[0] // 3, 10), title, fill="black", font=font)
        pen.line((left, top, left, bottom, right, bottom), fill="black", width=2)
        wide = (right - left) / count
        for place, height in enumerate(heights):
            x, y = left + (place + 0.2) * wide, bottom - (bottom - top) * height / 100
            ink = (68, 119, 170) if inks is None else tuple(map(int, inks[place]))
            pen.rectangle((x, y, x + 0.6 * wide, bottom), fill=ink)
            pen.text((x + 4, y - points - 4), str(height), fill="black", font=font)
            pen.text((x + 4, bottom + 6), "ABCDEFGHIJKL"[place], fill="black", font=font)
        return sheet

    return page(values.tolist()), page(changed.tolist())


def chart(template: int, draw: Draw, size: tuple[int, int] = (640, 480)) -> Picture:
    page = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=14.0)
    left, top, right, bottom = 70, 50, size[0] - 30, size[1] - 60
    for tick in range(6):
        y = bottom - (bottom - top) * tick // 5
        pen.line((left, y, right, y), fill=(220, 220, 220))
        pen.text((left - 34, y - 8), f"{20 * tick}", fill="black", font=font)
    pen.line((left, top, left, bottom, right, bottom), fill="black", width=2)
    title = ("Accuracy by group", "Sales by month", "Dose and response", "Share of answers")
    pen.text(
        (size[0] // 2 - 70, 18),
        title[template % 4],
        fill="black",
        font=ImageFont.load_default(size=18.0),
    )
    pen.text(
        (size[0] // 2 - 30, size[1] - 28),
        ("group", "month", "dose", "answer")[template % 4],
        fill="black",
        font=font,
    )
    inks = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40))
    count = 6 + 2 * (template % 3)
    values = draw.uniform(0.05, 0.95, (2, count))
    step = (right - left) / count
    for series in range(1 + template % 2):
        ink = inks[(template + series) % 4]
        spots = [
            (left + (place + 0.5) * step, bottom - (bottom - top) * float(value))
            for place, value in enumerate(values[series])
        ]
        if template % 4 == 2:
            pen.line(spots, fill=ink, width=3)
            for across, height in spots:
                pen.ellipse((across - 4, height - 4, across + 4, height + 4), fill=ink)
        else:
            for across, height in spots:
                start = across - step * 0.35 + series * step * 0.35
                pen.rectangle((start, height, start + step * 0.33, bottom), fill=ink)
        pen.rectangle(
            (right - 90, top + 6 + 20 * series, right - 76, top + 18 + 20 * series), fill=ink
        )
        pen.text(
            (right - 70, top + 4 + 20 * series), f"series {series + 1}", fill="black", font=font
        )
    for place in range(count):
        pen.text(
            (left + (place + 0.5) * step - 6, bottom + 6),
            "ABCDEFGHIJKL"[place],
            fill="black",
            font=font,
        )
    return page


def drawn_world(name: str, draw: Draw, side: int = 224) -> tuple[Picture, Picture, Picture]:
    """A rendered scene or film, the same with one thing changed, and the same under a watermark."""
    world = {"scenes": SCENES, "films": FILMS}[name]
    thing = world.draw(draw)
    picture = world.render(thing, side)
    decoy = world.render(world.vary(thing, draw), side)
    return picture, decoy, watermark(picture, draw)


Maker = Callable[[Picture, Draw], Picture]
