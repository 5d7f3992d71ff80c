"""What every group of rules of the picture judge is worth: each is switched off on pairs whose truth is known.

The groups are patches that live here. A pair is judged once with everything on, and every function of every group is
watched: where all that a group said is what it says when it is off, the pair cannot come out otherwise, and the time
spent in the group is what it saves. Every other pair is judged again without the group, at once and in the same
process; what it has in common with the first judgement is remembered, and counted with the time that it took.
Decoding is in neither time, features are in both.

Left out are the rules that need the whole search, since they are not about a pair: *template* and *series* (many
pictures agree in the same parts), and which neighbours are shown.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ablate_memory import Memory
from ablate_patch import Patch, applied, apply
from quality_figures import HIGHER, LOWER, NEITHER, Figure, difference, share
from quality_pictures import COPY, PARTLY, UNDECIDED, Judge, Pair, asked_of, opened, product
from quality_pictures import shared_pairs as pairs_of

IMAGES = "heldout.overlap.images."
AT_A_TIME = 4  # pairs that a process is given
MOST = 60  # pairs of a set; a digest draws them where there are more
ALL = "all pairs"
MARKS = {"better": "harms", "worse": "helps", "differs": "changes"}  # of off against on


# What is switched off


@dataclass(frozen=True)
class Off:
    """One function of a group. ``moves``: would it, with this result of these arguments, have said something else?
    ``saves``: it is not called at all when the group is off."""

    module: str
    name: str
    instead: Callable[[Any], Any]
    moves: Callable[..., bool]
    saves: bool = True

    @property
    def patch(self) -> Patch:
        return Patch(IMAGES + self.module, self.name, self.instead)


@dataclass(frozen=True)
class Group:
    says: str
    parts: tuple[Off, ...]

    @property
    def patches(self) -> list[Patch]:
        return [part.patch for part in self.parts]

    @property
    def of_features(self) -> bool:
        return any(part.module == "_panels" for part in self.parts)


def _gives(module: str, name: str, value: Any, moves: Callable[[Any], bool] | None = None) -> Off:
    """It says ``value`` whatever it is asked; ``moves``: the results for which that matters."""

    def differs(result: Any) -> bool:
        return result is not None if value is None else bool(result != value)

    tells = moves or differs
    return Off(
        module,
        name,
        lambda _: lambda *args, **words: value,
        lambda result, *args, **words: tells(result),
    )


def _leaves(module: str, name: str, place: int) -> Off:
    """It gives back the argument at this place as it is."""
    return Off(
        module,
        name,
        lambda _: lambda *args, **words: args[place],
        lambda result, *args, **words: result is not args[place] and result != args[place],
    )


def _is_true(result: Any) -> bool:
    return bool(np.any(result))


def _never(*args: Any, **words: Any) -> bool:
    return False


def _always(*args: Any, **words: Any) -> bool:
    return True


GROUPS: dict[str, Group] = {
    "hues": Group(
        "Turns hues back where all of them are turned by one angle, and judges again.",
        (_leaves("verify", "_recoloured_as_a_whole", 0),),
    ),
    "untouched": Group(
        "Knows pairs most of whose pixels are the same to the last level, and compares them more strictly.",
        (
            Off(
                "_marks",
                "_grain",
                lambda grain: lambda *args: max(grain(*args), 0.501),
                lambda result, *args: result <= 0.5,
                saves=False,
            ),
        ),
    ),
    "snap": Group(
        "Lays a crop that nobody resized by whole pixels.",
        (_gives("_placement", "snap", None),),
    ),
    "block means": Group(
        "Asks of doubtful copies whether the means of small blocks agree.",
        (_gives("_shades", "shades_apart", 0.0, lambda result: bool(result > 4.2)),),
    ),
    "shades": Group(
        "Looks for places that are lighter or darker without an edge.",
        (_gives("_shades", "is_shaded", False),),
    ),
    "altered": Group(
        "Looks for a spot that shows something else in an aligned pair.",
        (_gives("_marks", "is_altered", False),),
    ),
    "edited levels": Group(
        "Sets how many grey levels are an edit by how the picture was stored and toned.",
        (_gives("_edits", "edited_levels", 2.5), _gives("_edits", "edited_in_tone", 7.0)),
    ),
    "worst window": Group(
        "Calls a copy changed in part where one window in a hundred differs.",
        (
            Off(
                "_agreement",
                "compare",
                lambda compare: lambda *args: replace(compare(*args), worst=0.0),
                lambda result, *args: result.worst > 0.3,
                saves=False,
            ),
        ),
    ),
    "marks set aside": Group(
        "Sets marks aside or lifts veils, and compares the rest.",
        (
            _gives(
                "_marks",
                "without_marks",
                None,
                lambda result: result is not None and result.residual < 0.05,  # else it is not used
            ),
        ),
    ),
    "lettering": Group(
        "Knows thin strokes in a row in one ink as lettering.",
        (_gives("_lettering", "is_lettering", False),),
    ),
    "letter in a corner": Group(
        "Knows the letter that names a panel.",
        (_gives("_lettering", "letter_in_corner", None),),
    ),
    "veils": Group(
        "Undoes a veil of black or white under which the picture still shows.",
        (_gives("_marks", "_veil", None),),
    ),
    "guards of marks": Group(
        "Tells marks from bars that became longer, from softened edges and from letters in the place of others.",
        (
            _gives("_marks", "_continues", False),
            _gives("_marks", "_hides_most", False),
            _gives("_marks", "stand_for_others", False),
            Off(
                "_marks",
                "_own_strokes",
                lambda _: lambda cv2, frame, difference, mask: difference.strong,
                lambda result, cv2, frame, difference, mask: (
                    not np.array_equal(result, difference.strong)
                ),
            ),
            Off(
                "_marks",
                "_softened",
                lambda _: lambda cv2, frame, label, mask: np.zeros(mask.shape, bool),
                lambda result, *args: _is_true(result),
            ),
        ),
    ),
    "close look": Group(
        "Compares what is called a copy once more on 1,600 pixels, for small print.",
        (_gives("_closeup", "is_rewritten", False),),
    ),
    "close look: strokes": Group(
        "The close look's strokes that only one of the two has.",
        (
            Off(
                "_closeup",
                "_strokes",
                lambda _: lambda cv2, ours, theirs, mask, levels: np.zeros(mask.shape, bool),
                lambda result, *args: _is_true(result),
            ),
        ),
    ),
    "close look: spots": Group(
        "The close look's spots that differ more than print does elsewhere.",
        (_gives("_closeup", "_stands_out", False),),
    ),
    "close look: labels": Group(
        "Lets the close look pass over a letter that was added in a corner.",
        (_gives("_marks", "added_label", None),),
    ),
    "recoloured in part": Group(
        "Looks for blocks, inks and fills of another colour in what is called a copy.",
        (_gives("_colours", "is_recoloured_in_part", False),),
    ),
    "fills": Group(
        "Looks for fills exchanged for others of equal lightness.",
        (_gives("_fills", "has_other_fill", False),),
    ),
    "inks": Group(
        "Tells one ink from another where both pictures are coloured.",
        (_gives("_colours", "_inks_apart", 0.0, lambda result: bool(result > 24.0)),),
    ),
    "colours changed": Group(
        "Says transformed copy, not same image, where half of the frame has another colour.",
        (_gives("_colours", "has_other_colours", False),),
    ),
    "one tone": Group(
        "Draws a tone curve level by level, brings one picture to the other's tone and compares again.",
        (_gives("register", "_in_one_tone", None),),
    ),
    "other tones": Group(
        "Does so even where all seems explained, if most is lighter or darker.",
        (_gives("_tone", "in_other_tones", False),),
    ),
    "panels": Group(
        "Cuts pages along their gutters and compares every panel.",
        (
            Off(
                "_panels",
                "panel_boxes",
                lambda _: lambda grey: [],
                lambda result, grey: result != [],
            ),
        ),
    ),
    "page and panel": Group(
        "Weighs a panel against its page: which was seen better, do the pictures go on beyond it?",
        (_leaves("register", "_seen_whole", 3), _gives("register", "_seen_better", False)),
    ),
    "refine": Group(
        "Lets the pixels pull a warp into place.", (_gives("_placement", "refine", []),)
    ),
    "pull": Group(
        "All pulling of pixels: of a warp, in one tone, and of small pictures.",
        (_gives("_placement", "pull", None),),
    ),
    "local features": Group(
        "Lays pictures on each other by local features where whole frames do not fit.",
        (
            _gives(
                "features",
                "from_local_features",
                None,
                lambda result: result is not None and result.inliers >= 5,  # else it is not used
            ),
        ),
    ),
    "small": Group(
        "Judges pictures below 64 pixels by rules of their own.",
        (
            _gives("_small", "is_small", False),
            Off("verify", "SMALL_SIDE", lambda _: 0, _never, saves=False),
        ),
    ),
    "small: colours": Group(
        "Asks of small copies whether the colours agree.",
        (_gives("_small", "is_recoloured", False),),
    ),
    "small: middles": Group(
        "Looks for the middle of a small picture in the other.",
        (_gives("_small", "from_middles", []),),
    ),
    "plain": Group(
        "Takes many witnesses for proof where few windows hold detail.",
        (_gives("register", "_proven_plain", False),),
    ),
    "close frames": Group(
        "Takes whole frames that differ nowhere by much for copies.",
        (
            _gives("register", "_proven_close", False),
            _gives("_marks", "levels_apart", 255.0, _never),  # only _proven_close reads it
        ),
    ),
    "identical": Group(
        "Calls pictures the same that are too small or plain for windows and differ in no pixel.",
        (_gives("register", "_identical", False),),
    ),
}
SWITCHES: dict[str, tuple[str, Callable[[], None]]] = {
    name: (group.says, partial(apply, group.patches)) for name, group in GROUPS.items()
}


# Slow functions that no group is a part of, so that what they say does not depend on a switch
REMEMBERED = (
    ("_agreement", "lay"),
    ("_agreement", "compare"),
    ("_agreement", "explained"),
    ("features", "_local_features"),
    ("features", "_agreed"),
    ("_tone", "in_tone_of"),
    ("_tone", "tone_curve"),
    ("_placement", "pull"),
    ("_shades", "is_shaded"),
    ("_shades", "shades_apart"),
    ("_marks", "_grain"),
    ("_marks", "unexplained_by_either"),
    ("_closeup", "_frame"),
    ("_fills", "has_other_fill"),
)


# What is watched while everything is on


@dataclass
class Watch:
    clock: Callable[[], float]
    moved: set[str] = field(default_factory=set)  # groups that said something that counts
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds
    _inside: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def of(self, group: str, part: Off) -> Patch:
        def watched(function: Any) -> Any:
            if not callable(function):
                return function

            def call(*args: Any, **words: Any) -> Any:
                self._inside[group] += 1
                start = self.clock()
                try:
                    result = function(*args, **words)
                finally:
                    self._inside[group] -= 1
                if part.saves and not self._inside[group]:
                    self.spent[group] += self.clock() - start
                if group not in self.moved and part.moves(result, *args, **words):
                    self.moved.add(group)
                return result

            return call

        return Patch(IMAGES + part.module, part.name, watched)


@contextmanager
def watching(names: Iterable[str], clock: Callable[[], float]) -> Iterator[Watch]:
    watch = Watch(clock)
    with applied([watch.of(name, part) for name in names for part in GROUPS[name].parts]):
        yield watch


# Pairs


@dataclass(frozen=True)
class Compared:
    """What is said of a pair, in how many milliseconds; by switch the same of what a switch changes."""

    pair: Pair
    said: str
    milliseconds: float
    off: dict[str, tuple[str, float]]


class Judging:
    """The product's judge, with features that are kept from one judgement of a pair to the next."""

    def __init__(self) -> None:
        from heldout.overlap.images import features

        judge = product()
        self._memory = Memory()
        apply(Patch(IMAGES + place, name, self._memory.of) for place, name in REMEMBERED)
        self._found: dict[int, Any] = {}
        self._find = features.cheap_features
        vars(features)["cheap_features"] = self._features
        self._judge: Judge = judge

    def _features(self, picture: Image.Image) -> Any:
        if id(picture) not in self._found:
            self._found[id(picture)] = self._find(picture)
        return self._found[id(picture)]

    def compared(self, pair: Pair, names: Sequence[str]) -> Compared:
        pictures = opened(pair.query), opened(pair.candidate)
        self._memory.forget()
        with watching(names, self._memory.clock) as watch:
            looking = self._look(pictures)
            said, judging = self._said(pictures)
        known = dict(self._found)
        off: dict[str, tuple[str, float]] = {}
        for name in names:
            group = GROUPS[name]
            if name not in watch.moved:
                off[name] = said, 1000 * (looking + judging - watch.spent[name])
                continue
            with applied(group.patches):
                again = self._look(pictures) if group.of_features else looking
                word, seconds = self._said(pictures)
            off[name] = word, 1000 * (again + seconds)
            self._found = dict(known)
        return Compared(pair, said, 1000 * (looking + judging), off)

    def _look(self, pictures: tuple[Image.Image, Image.Image]) -> float:
        self._found.clear()
        start = self._memory.clock()
        for picture in pictures:
            self._features(picture)
        return self._memory.clock() - start

    def _said(self, pictures: tuple[Image.Image, Image.Image]) -> tuple[str, float]:
        for found in self._found.values():
            for each in (found, *(panel for _, panel in found.panels)):
                vars(each).pop("local", None)
                vars(each).pop("glance", None)
        start = self._memory.clock()
        said = self._judge(*pictures)
        return said, self._memory.clock() - start


_judging: list[Judging] = []  # of a process


def _compared(pair: Pair, names: Sequence[str]) -> Compared:
    if not _judging:
        import cv2

        cv2.setNumThreads(1)
        _judging.append(Judging())
    return _judging[0].compared(pair, names)


def compared(pairs: Sequence[Pair], names: Sequence[str], jobs: int) -> list[Compared]:
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        return list(pool.imap(partial(_compared, names=names), pairs, AT_A_TIME))


# Rows


def set_of(pair: Pair) -> str:
    group = pair.kind.partition(": ")[0]
    if group == "32 px":
        return pair.kind
    beside = group == "chart drawn again" and pair.truth != "copy"
    return f"{group}, something beside it" if beside else group


def drawn(pairs: Sequence[Pair]) -> list[Pair]:
    """At most ``MOST`` of every set, in the order given."""
    sets: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        sets[set_of(pair)].append(pair)
    kept = {each for mine in sets.values() for each in sorted(mine, key=_draw)[:MOST]}
    return [pair for pair in pairs if pair in kept]


def _draw(pair: Pair) -> str:
    return hashlib.sha256(f"{pair.query.name} {pair.candidate.name}".encode()).hexdigest()


def _figures(pair: Pair, title: str) -> list[tuple[str, str, frozenset[str]]]:
    """The figure of the quality table, then what else may change."""
    asked = asked_of(pair, title)
    found = frozenset({COPY, PARTLY})
    if pair.truth == "other":
        more = [("copy", LOWER, frozenset({COPY})), ("undecided", LOWER, frozenset({UNDECIDED}))]
    elif asked[0] == "taken for a whole copy":
        more = [("copy or in part", NEITHER, found)]
    elif asked[0] == "copy":
        more = [("copy or in part", HIGHER, found)]
    else:
        more = [("copy", NEITHER, frozenset({COPY}))]
    return [asked, *more]


def rows_of(switch: str, results: Sequence[Compared]) -> list[dict[str, object]]:
    """A row for the figure of each set, more where they change, and CPU."""
    sets: defaultdict[str, list[Compared]] = defaultdict(list)
    for each in results:
        sets[set_of(each.pair)].append(each)
    rows = []
    for title in sorted(sets):
        mine = sets[title]
        for place, (name, better, words) in enumerate(_figures(mine[0].pair, title)):
            on = [each.said in words for each in mine]
            off = [each.off[switch][0] in words for each in mine]
            if not place or on != off:
                rows.append(row_of(switch, GROUPS[switch].says, title, name, better, on, off))
        rows.append(_cpu(switch, title, mine))
    return [*rows, _cpu(switch, ALL, results)]


def row_of(
    switch: str, says: str, title: str, name: str, better: str, on: list[bool], off: list[bool]
) -> dict[str, object]:
    now, then = (share("", title, name, each, better) for each in (off, on))
    return {
        "switch": switch,
        "what": says,
        "set": title,
        "figure": name,
        "of": len(on),
        "on": then.value,
        "off": now.value,
        "gained": sum(b and not a for a, b in zip(on, off, strict=True)),
        "lost": sum(a and not b for a, b in zip(on, off, strict=True)),
        "mark": MARKS.get(difference(now, then, True)[2], ""),
    }


def cost_row(
    switch: str, says: str, title: str, of: int, on: float, off: float
) -> dict[str, object]:
    """CPU milliseconds; a difference within the noise of a machine has no mark."""
    now, then = (Figure("", title, "CPU", each, "ms", LOWER) for each in (off, on))
    mark = MARKS.get(difference(now, then, True)[2], "")
    return {
        "switch": switch,
        "what": says,
        "set": title,
        "figure": "CPU",
        "of": of,
        "on": on,
        "off": off,
        "gained": 0,
        "lost": 0,
        "mark": mark,
    }


def _cpu(switch: str, title: str, results: Sequence[Compared]) -> dict[str, object]:
    on = sum(each.milliseconds for each in results) / len(results)
    off = sum(each.off[switch][1] for each in results) / len(results)
    return cost_row(switch, GROUPS[switch].says, title, len(results), on, off)


def measure(
    shared: Path, out: Path, jobs: int, only: Sequence[str] = ()
) -> list[dict[str, object]]:
    """Every switch, or ``only`` some, on pairs of half 0."""
    names = [name for name in GROUPS if not only or name in only]
    results = compared(drawn(pairs_of(shared, out, 0)), names, jobs)
    return [row for name in names for row in rows_of(name, results)]
