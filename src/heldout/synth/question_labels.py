"""What an item is about, by rules over its words and its figure's labels: kind of question,
modality, anatomy."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.labels import CLINICAL_SUBTYPES, labels_of_caption, split_labels

OTHER = "other"
# The first rule that applies decides.
_ARCHETYPES: Mapping[str, str] = {
    "next-step": r"next (?:best )?step|best next|most appropriate (?:management|treatment"
    r"|investigation|test)|"
    r"should be (?:done|performed|given)",
    "grading": r"\bgrade\b|\bstage\b|severity|\bscore\b|classification",
    "diagnosis": r"diagnos|most likely (?:cause|explanation|condition|disease)|which (?:disease"
    r"|condition|disorder)",
    "modality": r"modality|imaging (?:technique|method)|\bsequence\b|which stain\b"
    r"|staining (?:method|technique)|"
    r"type of (?:image|imaging|microscop)|\btechnique\b",
    "localisation": r"\bwhere\b|which (?:\w+ )?(?:structure|region|lobe|organ|area|segment|side"
    r"|layer|compartment|"
    r"location|quadrant|panel|position)|located",
    "finding": r"finding|abnormalit|what is (?:seen|shown|visible)|is (?:seen|present|visible)"
    r"|lesion|feature",
}
_MODALITIES: Mapping[str, str] = {
    "x-ray radiography": "X-ray",
    "computerized tomography": "CT",
    "magnetic resonance": "MRI",
    "functional magnetic resonance": "MRI",
    "ultrasound": "ultrasound",
    "mammography": "mammography",
    "angiography": "angiography",
    "endoscopy": "endoscopy",
    "laryngoscopy": "endoscopy",
    "optical coherence tomography": "OCT",
    "electrocardiography": "ECG",
    "eye": "fundus photography",
    "light microscopy": "light microscopy",
    "electron microscopy": "electron microscopy",
    "fluorescence microscopy": "fluorescence microscopy",
    "immunohistochemistry": "immunohistochemistry",
    "microscopy": "microscopy",
    "unspecified microscopy": "microscopy",
    "intraoral imaging": "dental imaging",
    "teeth": "dental imaging",
    "skin lesion": "photograph",
    "patient photo": "photograph",
    "specimen": "photograph",
    "intraoperative image": "photograph",
    "surgical procedure": "photograph",
    "procedural image": "photograph",
    "plot": "plot",
    "diagram": "diagram",
    "map": "map",
    "immunoblot": "blot",
    "scene": "rendered scene",
}
_ANATOMY: Mapping[str, str] = {
    "brain": r"\bbrain|cerebr|cortex|cortical|cerebell|hippocamp|neuron|intracranial|thalam",
    "spine": r"\bspin(?:e|al)|vertebra|lumbar|cervical spine|disc\b",
    "eye": r"\beye|retina|cornea|optic nerve|macula|fundus",
    "teeth and jaw": r"\bteeth|\btooth|dental|mandib|maxill|molar|periodont",
    "head and neck": r"\bneck|larynx|pharyn|thyroid|sinus|\bskull|orbit",
    "heart and vessels": r"\bheart|cardia|coronar|aort|ventric|arter|vein|vascul|atri(?:um|al)",
    "lung and chest": r"\blung|pulmon|chest|thora|pleura|bronch|trachea",
    "breast": r"\bbreast|mammar",
    "liver and biliary": r"\bliver|hepat|biliary|gallbladder|bile",
    "gastrointestinal": r"stomach|gastr|bowel|colon|intestin|esophag|oesophag|rect(?:um|al)|duoden|append",
    "pancreas and spleen": r"pancrea|spleen",
    "kidney and urinary": r"kidney|renal|ureter|bladder|urinar",
    "reproductive": r"uter|ovar|prostat|testic|placent|f(?:o|oe)tal|fetus|cervix",
    "bone and joint": r"\bbone|fractur|femur|femoral|tibia|humer|\bhip\b|knee|shoulder|pelvi|joint|osteo",
    "skin": r"\bskin|derm|epiderm|melano",
    "blood and lymph": r"lymph|blood smear|leuk|erythrocyte|marrow",
    "cells": r"\bcell|mitochond|nucle(?:us|ar)|membrane|synap",
}
_COMPILED = {
    table: {name: re.compile(rule, re.IGNORECASE) for name, rule in rules.items()}
    for table, rules in (("archetype", _ARCHETYPES), ("anatomy", _ANATOMY))
}


def archetype_of(draft: Draft) -> str:
    """The kind of question; ``attribute`` where no rule applies."""
    if draft.archetype:
        return draft.archetype
    return _first("archetype", draft.question) or "attribute"


def modality_of(figure: PaperFigure) -> str:
    for label in (*split_labels(figure.secondary), labels_of_caption(figure.caption)[1]):
        if label in _MODALITIES:
            return _MODALITIES[label]
    return OTHER


def anatomy_of(draft: Draft, figure: PaperFigure) -> str:
    """By the question and its right option, else by the caption, else by the figure's label."""
    if figure.primary == "rendered":  # a drawn heart is no heart
        return OTHER
    right = draft.options[LETTERS.index(draft.answer)]
    for text in (f"{draft.question} {right}", figure.caption):
        name = _first("anatomy", text)
        if name:
            return name
    label = next(
        (label for label in split_labels(figure.secondary) if label in CLINICAL_SUBTYPES), ""
    )
    return {"brain": "brain", "skull": "head and neck", "eye": "eye", "teeth": "teeth and jaw"}.get(
        label, OTHER
    )


def _first(table: str, text: str) -> str:
    return next((name for name, rule in _COMPILED[table].items() if rule.search(text)), "")
