"""The nouns of synthesis: a figure of a paper, and the item that a model drafts from it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LETTERS = "ABCDE"
REPLACED = "\ufffd"
_NO_TEXT = re.compile("[\ud800-\udfff\0]")


def clean(text: str) -> str:
    """Half of a surrogate pair and NUL, which no table and no prompt can hold, become U+FFFD."""
    return text if text.isascii() and "\0" not in text else _NO_TEXT.sub(REPLACED, text)


def cleaned(value: Any) -> Any:
    """A row of a table, or a value of JSON, with all its texts clean; keys stay as they are."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: cleaned(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(cleaned, value))
    return value


@dataclass(frozen=True)
class FigureImage:
    """One image of a figure. ``location`` says where it was read: a path, or ``ARCHIVE!MEMBER``.
    ``path`` is empty until the figure is selected; then it names a copy of the original bytes in
    the run folder."""

    location: str
    sha256: str
    width: int
    height: int
    path: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """A figure with its caption, the paragraphs that mention it, and where it comes from."""

    id: str  # "ARTICLE/FIGURE"
    article: str
    label: str  # as printed: "Figure 3"
    caption: str
    references: tuple[str, ...]
    images: tuple[FigureImage, ...]
    licence: str  # short name: "CC BY 4.0", "CC0", "unknown"
    licence_url: str
    redistributable: bool
    attribution: str
    source: str  # the file it was read from
    primary: str = ""
    secondary: str = ""
    licence_text: str = ""  # how an unknown licence begins

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str):
                object.__setattr__(self, name, clean(value))
        object.__setattr__(self, "references", tuple(map(clean, self.references)))

    def as_row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> PaperFigure:
        images = tuple(FigureImage(**image) for image in row["images"])
        return cls(**{**row, "references": tuple(row["references"]), "images": images})


@dataclass(frozen=True)
class Draft:
    """A five-option item as the generator wrote it, before verification."""

    id: str  # of the figure, with a running number where a figure has several
    figure: str
    question: str
    options: tuple[str, ...]  # A to E
    answer: str  # a letter
    archetype: str = ""
    generator: str = ""  # identity of the model and template, shortened
    raw: str = ""  # the reply it was read from
    extra: Mapping[str, str] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        row = asdict(self)
        return {**row, "options": list(self.options), "extra": sorted(self.extra.items())}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Draft:
        return cls(**{**row, "options": tuple(row["options"]), "extra": dict(row["extra"])})

    def as_mcq(self) -> dict[str, Any]:
        """The item in the published form: question, options by letter, answer."""
        options = dict(zip(LETTERS, self.options, strict=False))
        return {"question": self.question, "options": options, "answer": self.answer}


def content_digest(draft: Draft, figure: PaperFigure) -> str:
    """SHA-256 of what an item asks: question, options, right option and images. Neither the order of the
    options or of the images nor case and blanks change it."""
    right = draft.options[LETTERS.index(draft.answer)]
    words = (draft.question, *sorted(map(_plain, draft.options)), right)
    parts = (*map(_plain, words), *sorted(image.sha256 for image in figure.images))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


# Labels of figures: those that Biomedica gives, and rules over captions for sources that give none.


RULES = "heldout-labels/2"  # raise with any change of how captions are labelled
CLINICAL, MICROSCOPY = "clinical imaging", "microscopy"
LIGHT = "light microscopy"
UNSTATED = "unspecified microscopy"  # by rule, where the caption does not say of which kind
# Biomedica's secondary labels under clinical imaging, as the published run used them.
CLINICAL_SUBTYPES = (
    "angiography",
    "brain",
    "clinical imaging",
    "computerized tomography",
    "electrocardiography",
    "endoscopy",
    "eye",
    "functional magnetic resonance",
    "intraoperative image",
    "intraoral imaging",
    "laryngoscopy",
    "magnetic resonance",
    "mammography",
    "optical coherence tomography",
    "patient photo",
    "procedural image",
    "skin lesion",
    "skull",
    "specimen",
    "surgical procedure",
    "teeth",
    "ultrasound",
    "x-ray radiography",
)
DEFAULT = (*CLINICAL_SUBTYPES, LIGHT, UNSTATED, "scene")
EVERYTHING = "all"

# Caption words by (primary, secondary) label; the first rule that applies decides, so narrow
# ones come first.
# Acronyms are matched in capitals: bold type is no BOLD signal.
_RULES: tuple[tuple[str, str, str], ...] = (
    (CLINICAL, "optical coherence tomography", r"optical coherence tomograph|(?-i:\bOCT\b)"),
    (
        CLINICAL,
        "functional magnetic resonance",
        r"(?-i:\bf-?MRI\b)"
        r"|functional (?:magnetic resonance|MRI)|(?-i:\bBOLD\b)",
    ),
    (
        CLINICAL,
        "magnetic resonance",
        r"(?-i:\bMRI?\b)|magnetic resonance|\bT[12][- ]weighted"
        r"|(?-i:\bFLAIR\b)",
    ),
    (CLINICAL, "mammography", r"mammogra"),
    (CLINICAL, "angiography", r"angiogra"),
    (
        CLINICAL,
        "computerized tomography",
        r"(?-i:\bCT\b)|computed tomograph|tomodensitomet"
        r"|(?-i:\bPET[-/]CT\b)",
    ),
    (CLINICAL, "ultrasound", r"ultraso(?:und|nograph)|echocardiogra|\bdoppler\b|sonogra"),
    (
        CLINICAL,
        "x-ray radiography",
        r"radiograph|\bx-?ray\b|roentgen|\bpanoram\w+ (?:view|radiograph)",
    ),
    (CLINICAL, "laryngoscopy", r"laryngoscop"),
    (CLINICAL, "endoscopy", r"endoscop|colonoscop|bronchoscop|gastroscop"),
    (CLINICAL, "electrocardiography", r"electrocardiogra|(?-i:\bECG\b)|(?-i:\bEKG\b)"),
    (CLINICAL, "eye", r"fundus|slit[- ]lamp|fundoscop|retinal photograph"),
    (CLINICAL, "intraoral imaging", r"intra-?oral|periapical"),
    (CLINICAL, "skin lesion", r"dermoscop|skin lesion|erythematous (?:plaque|papule|rash)"),
    (CLINICAL, "intraoperative image", r"intra-?operative|during surgery"),
    (CLINICAL, "specimen", r"gross (?:specimen|patholog|appearance)|resected specimen"),
    # "mean ± SEM" is no microscope.
    (
        MICROSCOPY,
        "electron microscopy",
        r"electron microgra|electron microscop|(?-i:\bTEM\b)|(?-i:\bSEM\b) (?:image|micrograph)"
        r"|(?-i:\bFIB-?SEM\b)|cryo-?EM|(?-i:\bEM\b) (?:data|image|section|volume)",
    ),
    (
        MICROSCOPY,
        "fluorescence microscopy",
        r"fluorescen|confocal|two-photon|immunofluoresc|(?-i:\bDAPI\b)|(?-i:\bGFP\b)|calcium imaging",
    ),
    (MICROSCOPY, "immunohistochemistry", r"immunohistochem|(?-i:\bIHC\b)|immunostain"),
    (
        MICROSCOPY,
        LIGHT,
        r"light microscop|haematoxylin|hematoxylin|(?-i:\bH&E\b)|(?-i:\bHE stain)|histolog"
        r"|histopatholog|photomicrograph|"
        r"gram stain|giemsa|magnification|bright-?field|phase[- ]contrast",
    ),
    (MICROSCOPY, UNSTATED, r"microscop|micrograph|scale bars?\b"),
    (
        "immuno assay",
        "immunoblot",
        r"western blot|immunoblot|(?-i:\bSDS-PAGE\b)|\bgel electrophores",
    ),
    ("maps", "map", r"\bmap of\b|geographic|study (?:site|location|area)s?"),
    (
        "plot",
        "plot",
        r"\bplot|histogram|bar (?:graph|chart)|\bcurves?\b|error bars?|\bkaplan"
        r"|scatter|heat ?map|"
        r"box(?:es)? (?:plot|show|represent)|regression|distribution of|(?-i:\bROC\b)"
        r"|p ?[<=] ?0?\.\d|mean ?±|±|correlat",
    ),
    (
        "scientific illustration",
        "diagram",
        r"schema|diagram|flow ?chart|illustrat|overview of"
        r"|workflow|pipeline|"
        r"experimental (?:design|setup)|model of",
    ),
)
_COMPILED = tuple((p, s, re.compile(rule, re.IGNORECASE)) for p, s, rule in _RULES)
OTHER = ("other", "other")


def split_labels(text: str) -> tuple[str, ...]:
    return tuple(label.strip().lower() for label in text.split(";") if label.strip())


def labels_of_caption(caption: str) -> tuple[str, str]:
    """(primary, secondary) label by the words of a caption. These are rules: a caption that names two
    techniques gets the label of the first rule."""
    for primary, secondary, rule in _COMPILED:
        if rule.search(caption):
            return primary, secondary
    return OTHER
