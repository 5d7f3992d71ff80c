"""Citations of the methods that ran, and of no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heldout.detect import Citation, article, arxiv, detectors
from heldout.report.export._case import ExportCase

# Citations of how corpora were searched: hashes, features, encoders, words, people.


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


def methods_of_data(case: ExportCase) -> Iterator[tuple[Citation, str]]:
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


# Citations of the intervals, tests and corrections behind the numbers of a run.


HOLM = article(
    "holm1979simple",
    "A Simple Sequentially Rejective Multiple Test Procedure",
    "Holm, Sture",
    "Scandinavian Journal of Statistics",
    1979,
    "6",
    "65--70",
)
YEKUTIELI = article(
    "benjamini2001control",
    "The Control of the False Discovery Rate in Multiple Testing under Dependency",
    "Benjamini, Yoav and Yekutieli, Daniel",
    "Annals of Statistics",
    2001,
    "29",
    "1165--1188",
    "4",
)
CLOPPER = article(
    "clopper1934use",
    "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
    "Clopper, Charles J. and Pearson, Egon S.",
    "Biometrika",
    1934,
    "26",
    "404--413",
    "4",
)
KORN = article(
    "korn1998confidence",
    "Confidence Intervals for Proportions with Small Expected Number of Positive Counts Estimated from "
    "Survey Data",
    "Korn, Edward L. and Graubard, Barry I.",
    "Survey Methodology",
    1998,
    "24",
    "193--201",
)
KISH = Citation(
    "book",
    "kish1965survey",
    {
        "title": "Survey Sampling",
        "author": "Kish, Leslie",
        "publisher": "John Wiley \\& Sons",
        "address": "New York",
        "year": "1965",
    },
)
PHIPSON = article(
    "phipson2010permutation",
    "Permutation {P}-values Should Never Be Zero: Calculating Exact {P}-values When Permutations Are "
    "Randomly Drawn",
    "Phipson, Belinda and Smyth, Gordon K.",
    "Statistical Applications in Genetics and Molecular Biology",
    2010,
    "9",
    "Article 39",
    "1",
)
BESAG = article(
    "besag1991sequential",
    "Sequential {Monte Carlo} p-values",
    "Besag, Julian and Clifford, Peter",
    "Biometrika",
    1991,
    "78",
    "301--304",
    "2",
)
McNEMAR = article(
    "mcnemar1947note",
    "Note on the Sampling Error of the Difference between Correlated Proportions or Percentages",
    "McNemar, Quinn",
    "Psychometrika",
    1947,
    "12",
    "153--157",
    "2",
)
BONETT = article(
    "bonett2012adjusted",
    "Adjusted {Wald} Confidence Interval for a Difference of Binomial Proportions Based on Paired Data",
    "Bonett, Douglas G. and Price, Robert M.",
    "Journal of Educational and Behavioral Statistics",
    2012,
    "37",
    "479--488",
    "4",
)
FISHER = article(
    "fisher1921probable",
    "On the ``Probable Error'' of a Coefficient of Correlation Deduced from a Small Sample",
    "Fisher, Ronald A.",
    "Metron",
    1921,
    "1",
    "3--32",
)
JONCKHEERE = article(
    "jonckheere1954distribution",
    "A Distribution-Free k-Sample Test Against Ordered Alternatives",
    "Jonckheere, Aimable R.",
    "Biometrika",
    1954,
    "41",
    "133--145",
    "1/2",
)
COHEN = article(
    "cohen1960coefficient",
    "A Coefficient of Agreement for Nominal Scales",
    "Cohen, Jacob",
    "Educational and Psychological Measurement",
    1960,
    "20",
    "37--46",
    "1",
)
KRIPPENDORFF = Citation(
    "book",
    "krippendorff2004content",
    {
        "title": "Content Analysis: An Introduction to Its Methodology",
        "author": "Krippendorff, Klaus",
        "publisher": "Sage",
        "edition": "2",
        "year": "2004",
    },
)
KENDALL = article(
    "kendall1945treatment",
    "The Treatment of Ties in Ranking Problems",
    "Kendall, Maurice G.",
    "Biometrika",
    1945,
    "33",
    "239--251",
    "3",
)
MOGSTAD = article(
    "mogstad2024inference",
    "Inference for Ranks with Applications to Mobility across Neighbourhoods and Academic Achievement "
    "across Countries",
    "Mogstad, Magne and Romano, Joseph P. and Shaikh, Azeem M. and Wilhelm, Daniel",
    "Review of Economic Studies",
    2024,
    "91",
    "476--518",
    "1",
)

#: by what an interval's method says of itself
_INTERVALS: tuple[tuple[str, Citation], ...] = (
    ("clopper-pearson", CLOPPER),
    ("korn-graubard", KORN),
    ("effective clusters", KISH),
    ("Bonett and Price", BONETT),
    ("Fisher's z", FISHER),
)


def methods_of_statistics(case: ExportCase) -> Iterator[tuple[Citation, str]]:
    yield from _of_findings(case)
    tested = [finding for finding in case.findings if finding["p_adjusted"] is not None]
    scores = [owed for model in case.corrected.get("models", []) for owed in model["owed"]]
    if tested or any(owed["p_adjusted"] is not None for owed in scores):
        yield HOLM, "adjusted p within claims" if tested else "adjusted p of score differences"
    if any(record["cell"]["model"] is not None for record in tested):
        yield YEKUTIELI, "corrected p over claims about models"
    if any(ranking["tau_b"] is not None for ranking in case.corrected.get("rankings", [])):
        yield KENDALL, "tau-b of two rankings"
        yield MOGSTAD, "intervals of ranks"
    for cell in case.cells:
        for claim in cell["claims"]:
            if "Cohen's kappa" in claim["why"]:
                yield COHEN, "agreement of raters"
            if "Krippendorff's alpha" in claim["why"]:
                yield KRIPPENDORFF, "agreement of raters"


def _of_findings(case: ExportCase) -> Iterator[tuple[Citation, str]]:
    for finding in case.findings:
        method = finding["effect"]["method"]
        for part, entry in _INTERVALS:
            if part in method:
                yield entry, "intervals of rates" if entry in (CLOPPER, KORN, KISH) else "intervals"
        if "McNemar" in str(finding["details"].get("test", "")):
            yield McNEMAR, "paired tests"
        if finding["details"].get("permutations"):
            yield PHIPSON, "p-values of permutations"
            yield BESAG, "permutations that stop early"
        if finding["detector"] == "twin-consistency":
            yield JONCKHEERE, "trend over degrees of contamination"


def _cited(finding: Mapping[str, Any]) -> tuple[Citation, ...]:
    """A cohort's Δ is computed from another method's scores: that method is cited as well."""
    known = detectors()
    names = (finding["detector"], finding["details"].get("score"))
    return tuple(entry for name in names if name in known for entry in known[name].citations)


def bibtex(case: ExportCase) -> str:
    """heldout itself first, then every method with a finding, how data were searched, the statistics."""
    ours = Citation(
        "software",
        "heldout",
        {
            "title": "{heldout}: Is Your Vision-Language Benchmark Still Held Out?",
            "author": "{The heldout authors}",
            "version": case.version,
        },
    )
    uses: dict[str, list[str]] = {}
    entries = {ours.key: ours}
    cited = [(entry, finding["detector"]) for finding in case.findings for entry in _cited(finding)]
    for entry, use in (*cited, *methods_of_data(case), *methods_of_statistics(case)):
        entries.setdefault(entry.key, entry)
        names = uses.setdefault(entry.key, [])
        if use not in names:
            names.append(use)
    texts = [
        (f"% used for: {', '.join(uses[key])}\n" if key in uses else "") + entry.text()
        for key, entry in entries.items()
    ]
    return "\n\n".join(texts) + "\n"
