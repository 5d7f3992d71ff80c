"""Citations of the intervals, tests and corrections behind the numbers of a run."""

from __future__ import annotations

from collections.abc import Iterator

from heldout.detect import Citation, article
from heldout.report.export.case import Case

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


def methods_of_statistics(case: Case) -> Iterator[tuple[Citation, str]]:
    yield from _of_findings(case)
    tested = [finding for finding in case.findings if finding["p_adjusted"] is not None]
    scores = [owed for model in case.corrected.get("models", []) for owed in model["owed"]]
    if tested or any(owed["p_adjusted"] is not None for owed in scores):
        yield HOLM, "adjusted p within claims" if tested else "adjusted p of score differences"
    if any(record["cell"]["model"] is not None for record in tested):
        yield YEKUTIELI, "corrected p over claims about models"
    if any(one["tau_b"] is not None for one in case.corrected.get("rankings", [])):
        yield KENDALL, "tau-b of two rankings"
        yield MOGSTAD, "intervals of ranks"
    for cell in case.cells:
        for claim in cell["claims"]:
            if "Cohen's kappa" in claim["why"]:
                yield COHEN, "agreement of raters"
            if "Krippendorff's alpha" in claim["why"]:
                yield KRIPPENDORFF, "agreement of raters"


def _of_findings(case: Case) -> Iterator[tuple[Citation, str]]:
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
