"""Citations of how corpora were searched: hashes, features, encoders, words, people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heldout.detect import Citation, article, arxiv
from heldout.report.export.case import Case

PDQ = Citation(
    "techreport",
    "facebook2019pdq",
    {
        "title": "The {TMK+PDQF} Video-Hashing Algorithm and the {PDQ} Image-Hashing Algorithm",
        "author": "{Facebook}",
        "institution": "Facebook",
        "year": "2019",
        "howpublished": "ThreatExchange, hashing/hashing.pdf",
    },
)
PHASH = Citation(
    "mastersthesis",
    "zauner2010implementation",
    {
        "title": "Implementation and Benchmarking of Perceptual Image Hash Functions",
        "author": "Zauner, Christoph",
        "school": "Upper Austria University of Applied Sciences, Hagenberg",
        "year": "2010",
    },
)
SIFT = article(
    "lowe2004distinctive",
    "Distinctive Image Features from Scale-Invariant Keypoints",
    "Lowe, David G.",
    "International Journal of Computer Vision",
    2004,
    "60",
    "91--110",
    "2",
)
ECC = article(
    "evangelidis2008parametric",
    "Parametric Image Alignment Using Enhanced Correlation Coefficient Maximization",
    "Evangelidis, Georgios D. and Psarakis, Emmanouil Z.",
    "IEEE Transactions on Pattern Analysis and Machine Intelligence",
    2008,
    "30",
    "1858--1865",
    "10",
)
RAMOS = arxiv(
    "ramos2025data",
    "Data Leakage in Visual Datasets",
    "Ramos, Patrick and Ramos, Ryan and Garcia, Noa",
    2025,
    "2508.17416",
)
HUBS = article(
    "radovanovic2010hubs",
    "Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data",
    "Radovanovi{\\'c}, Milo{\\v{s}} and Nanopoulos, Alexandros and Ivanovi{\\'c}, Mirjana",
    "Journal of Machine Learning Research",
    2010,
    "11",
    "2487--2531",
)
CLIP = arxiv(
    "radford2021learning",
    "Learning Transferable Visual Models From Natural Language Supervision",
    "Radford, Alec and Kim, Jong Wook and Hallacy, Chris and Ramesh, Aditya and Goh, Gabriel and Agarwal, "
    "Sandhini and Sastry, Girish and Askell, Amanda and Mishkin, Pamela and Clark, Jack and Krueger, "
    "Gretchen and Sutskever, Ilya",
    2021,
    "2103.00020",
    "International Conference on Machine Learning",
)
OPENCLIP = arxiv(
    "cherti2023reproducible",
    "Reproducible Scaling Laws for Contrastive Language-Image Learning",
    "Cherti, Mehdi and Beaumont, Romain and Wightman, Ross and Wortsman, Mitchell and Ilharco, Gabriel and "
    "Gordon, Cade and Schuhmann, Christoph and Schmidt, Ludwig and Jitsev, Jenia",
    2023,
    "2212.07143",
    "IEEE/CVF Conference on Computer Vision and Pattern Recognition",
)
SIGLIP = arxiv(
    "zhai2023sigmoid",
    "Sigmoid Loss for Language Image Pre-Training",
    "Zhai, Xiaohua and Mustafa, Basil and Kolesnikov, Alexander and Beyer, Lucas",
    2023,
    "2303.15343",
    "IEEE/CVF International Conference on Computer Vision",
)
SSCD = arxiv(
    "pizzi2022self",
    "A Self-Supervised Descriptor for Image Copy Detection",
    "Pizzi, Ed and Roy, Sreya Dutta and Ravindra, Sugosh Nagavara and Goyal, Priya and Douze, Matthijs",
    2022,
    "2202.10261",
    "IEEE/CVF Conference on Computer Vision and Pattern Recognition",
)
DINO = arxiv(
    "oquab2023dinov2",
    "{DINOv2}: Learning Robust Visual Features without Supervision",
    "Oquab, Maxime and others",
    2023,
    "2304.07193",
)
GPT3 = arxiv(
    "brown2020language",
    "Language Models are Few-Shot Learners",
    "Brown, Tom B. and others",
    2020,
    "2005.14165",
    "Advances in Neural Information Processing Systems",
)
LEVENSHTEIN = article(
    "levenshtein1966binary",
    "Binary Codes Capable of Correcting Deletions, Insertions, and Reversals",
    "Levenshtein, Vladimir I.",
    "Soviet Physics Doklady",
    1966,
    "10",
    "707--710",
    "8",
)

#: by a part of the encoder's name; an encoder that is not here is the user's to cite
_ENCODERS: tuple[tuple[str, tuple[Citation, ...]], ...] = (
    ("pixels", (SIFT,)),
    ("open_clip:", (OPENCLIP, CLIP)),
    ("siglip", (SIGLIP,)),
    ("sscd", (SSCD,)),
    ("dinov2", (DINO,)),
    ("clip", (CLIP,)),
)
_WORDS = {"ngram": (GPT3, "runs of 13 words"), "edit": (LEVENSHTEIN, "small edits of texts")}


def methods_of_data(case: Case) -> Iterator[tuple[Citation, str]]:
    """What the manifest says was done, whether or not it found something."""
    scans = list(case.manifest.get("stages", {}).values())
    if any(scan.get("hashes") for scan in scans):
        yield PDQ, "hashes of pictures"
        yield PHASH, "hashes of pictures"
    if any(_registered(scan) for scan in scans):
        yield SIFT, "registration"
        yield ECC, "registration"
    for encoder in sorted({scan["encoder"] for scan in scans if scan.get("encoder")}):
        name = encoder.split(" | ")[0]
        for entry in _of_encoder(name):
            yield entry, f"encoder {name.split('@')[0]}"
        yield RAMOS, "kinds and degrees of leaks"
    if case.manifest.get("calibration"):
        yield HUBS, "hubs among nearest neighbours"
    for text in case.manifest.get("text", {}).values():
        for method in text["methods"]:
            if method in _WORDS:
                yield _WORDS[method]


def _registered(scan: dict[str, Any]) -> bool:
    counts = scan["counts"]
    return bool(counts.get("pairs", 0) > counts.get("unverified_pairs", 0))


def _of_encoder(name: str) -> tuple[Citation, ...]:
    return next((entries for part, entries in _ENCODERS if part in name.lower()), ())
