"""Benchmark × corpus → matches."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.overlap.calibration.calibration import (
        Calibration,
        ControlRun,
        calibrations,
        quantiles_of,
    )
    from heldout.overlap.calibration.degrees import degrees_of
    from heldout.overlap.calibration.light_copies import NAME, SEEN
    from heldout.overlap.calibration.matrices import KINDS, MatrixRun, leakage_matrix
    from heldout.overlap.calibration.measure import CalibrationPlan, calibrate
    from heldout.overlap.calibration.nearest import ControlSet, Domain
    from heldout.overlap.calibration.record import calibration_record
    from heldout.overlap.calibration.sweep import ALPHAS, flag_p
    from heldout.overlap.calibration.threshold import Threshold
    from heldout.overlap.embeddings.benchmark_rows import benchmark_pictures
    from heldout.overlap.embeddings.corpus_rows import embed_corpus
    from heldout.overlap.embeddings.evaluation_rows import text_rows, upright_rows
    from heldout.overlap.embeddings.whole_pictures import whole_pictures
    from heldout.overlap.encoders.encoder import Encoder, unit
    from heldout.overlap.encoders.open import open_encoder
    from heldout.overlap.encoders.saved import open_matrix, read_identity
    from heldout.overlap.exact import ExactIndex, build_index
    from heldout.overlap.fingerprints.fixed_point import is_compiled
    from heldout.overlap.fingerprints.phash import phash
    from heldout.overlap.hashes import PDQ, PHASH, RADII
    from heldout.overlap.judged import (
        DISAGREE,
        DISMISSED_ALONE,
        RAISED_ALONE,
        RELATIONS,
        TEXT_RELATIONS,
        Pair,
        item_words,
        label_beside,
        match_subject,
        not_agreed,
        read_matches,
        read_text_matches,
        recognised,
        text_pairs,
        text_subject,
    )
    from heldout.overlap.modality import GRAVEST, Modality
    from heldout.overlap.near import NearSearch
    from heldout.overlap.parts import parts
    from heldout.overlap.registration.features import cheap_features
    from heldout.overlap.registration.register import register
    from heldout.overlap.relations import BY_DIGEST, COPIES, POSSIBLE_COPIES, SUREST, Relation
    from heldout.overlap.scan import scan
    from heldout.overlap.settings import (
        ALPHA,
        NEAREST,
        Bounds,
        JudgeEndpoint,
        OverlapSettings,
        parse_bounds,
    )
    from heldout.overlap.text.edits import EDITED, RENUMBERED, SAME, compare_wording
    from heldout.overlap.text.encoders import DEFAULT, open_text_encoder
    from heldout.overlap.text.index import TextSearch
    from heldout.overlap.text.judge import (
        JUDGED_DIFFERENT,
        Judge,
        ModelJudge,
        judge_texts,
    )
    from heldout.overlap.text.normalise import bare_options, loose, mask
    from heldout.overlap.text.pictures import ANOTHER, BESIDE, UNCOMPARED, beside
    from heldout.overlap.text.relation import (
        CONTAINED,
        PARAPHRASE,
        SAME_CAPTION,
        SAME_ITEM,
        SAME_QUESTION,
        TEMPLATE,
    )
    from heldout.overlap.text.testable import NO_WORDS, untestable_items
    from heldout.overlap.texts import forget_texts, scan_texts
    from heldout.overlap.verify import NO_OPENCV, NO_PICTURE, can_register

__all__ = [
    "ALPHA",
    "ALPHAS",
    "ANOTHER",
    "BESIDE",
    "BY_DIGEST",
    "CONTAINED",
    "COPIES",
    "DEFAULT",
    "DISAGREE",
    "DISMISSED_ALONE",
    "EDITED",
    "GRAVEST",
    "JUDGED_DIFFERENT",
    "KINDS",
    "NAME",
    "NEAREST",
    "NO_OPENCV",
    "NO_PICTURE",
    "NO_WORDS",
    "PARAPHRASE",
    "PDQ",
    "PHASH",
    "POSSIBLE_COPIES",
    "RADII",
    "RAISED_ALONE",
    "RELATIONS",
    "RENUMBERED",
    "SAME",
    "SAME_CAPTION",
    "SAME_ITEM",
    "SAME_QUESTION",
    "SEEN",
    "SUREST",
    "TEMPLATE",
    "TEXT_RELATIONS",
    "UNCOMPARED",
    "Bounds",
    "Calibration",
    "CalibrationPlan",
    "ControlRun",
    "ControlSet",
    "Domain",
    "Encoder",
    "ExactIndex",
    "Judge",
    "JudgeEndpoint",
    "MatrixRun",
    "Modality",
    "ModelJudge",
    "NearSearch",
    "OverlapSettings",
    "Pair",
    "Relation",
    "TextSearch",
    "Threshold",
    "bare_options",
    "benchmark_pictures",
    "beside",
    "build_index",
    "calibrate",
    "calibration_record",
    "calibrations",
    "can_register",
    "cheap_features",
    "compare_wording",
    "degrees_of",
    "embed_corpus",
    "flag_p",
    "forget_texts",
    "is_compiled",
    "item_words",
    "judge_texts",
    "label_beside",
    "leakage_matrix",
    "loose",
    "mask",
    "match_subject",
    "not_agreed",
    "open_encoder",
    "open_matrix",
    "open_text_encoder",
    "parse_bounds",
    "parts",
    "phash",
    "quantiles_of",
    "read_identity",
    "read_matches",
    "read_text_matches",
    "recognised",
    "register",
    "scan",
    "scan_texts",
    "text_pairs",
    "text_rows",
    "text_subject",
    "unit",
    "untestable_items",
    "upright_rows",
    "whole_pictures",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="audit_overlap")
