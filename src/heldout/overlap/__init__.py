"""Benchmark × corpus → matches."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.overlap.condensed import (
        PLACE,
        ROWS,
        CondensedMatches,
        condensed_matches,
        evidence_field,
        match_batches,
        pair_hash,
        read_matches,
        read_text_matches,
        script,
        with_subjects,
    )
    from heldout.overlap.images.embed import open_matrix, read_identity
    from heldout.overlap.images.embedding_rows import (
        benchmark_pictures,
        text_rows,
        upright_rows,
        whole_pictures,
    )
    from heldout.overlap.images.embeddings import embed_corpus
    from heldout.overlap.images.encoder import Encoder, open_encoder, parts, unit
    from heldout.overlap.images.exact import ExactIndex, build_index
    from heldout.overlap.images.features import cheap_features
    from heldout.overlap.images.fingerprint import phash
    from heldout.overlap.images.hashes import PDQ, PHASH, RADII
    from heldout.overlap.images.lanczos import is_compiled
    from heldout.overlap.images.near import NearSearch
    from heldout.overlap.images.register import register
    from heldout.overlap.images.scan import CorpusScan, scan, scan_part
    from heldout.overlap.images.verify import NO_OPENCV, NO_PICTURE, can_register
    from heldout.overlap.judgements import (
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
        pair_subject,
        recognised,
        text_pairs,
        text_subject,
    )
    from heldout.overlap.nearness.calibration import (
        Calibration,
        ControlRun,
        calibration_record,
        calibrations,
        quantiles_of,
    )
    from heldout.overlap.nearness.matrices import KINDS, MatrixRun, leakage_matrix
    from heldout.overlap.nearness.measure import COPIES_SEEN, LIGHT_COPY, CalibrationPlan, calibrate
    from heldout.overlap.nearness.nearest import ControlSet, Domain
    from heldout.overlap.nearness.threshold import ALPHAS, Threshold, degrees_of, flag_p
    from heldout.overlap.relations import (
        BY_DIGEST,
        CHANGED,
        COPIES,
        GRAVEST,
        IN_PART,
        POSSIBLE_COPIES,
        RECOLOURED,
        SUREST,
        TOO_PLAIN,
        TOO_SMALL,
        UNDECIDED_WORDS,
        Modality,
        Relation,
    )
    from heldout.overlap.sample import SearchSample, sample_search
    from heldout.overlap.settings import (
        NEAREST,
        Bounds,
        JudgeEndpoint,
        OverlapSettings,
        Part,
        parse_bounds,
    )
    from heldout.overlap.texts._language import MISTAKEN
    from heldout.overlap.texts.edits import EDITED, RENUMBERED, SAME, compare_wording
    from heldout.overlap.texts.encoders import DEFAULT, installed_text_encoder, open_text_encoder
    from heldout.overlap.texts.index import TextSearch
    from heldout.overlap.texts.judge import (
        JUDGED_DIFFERENT,
        Judge,
        ModelJudge,
        judge_texts,
    )
    from heldout.overlap.texts.normalise import bare_options, loose, mask
    from heldout.overlap.texts.relation import (
        ANOTHER,
        BESIDE,
        CONTAINED,
        DOUBTFUL_REWORDING,
        FULLER,
        NO_WORDS,
        PARAPHRASE,
        SAME_CAPTION,
        SAME_ITEM,
        SAME_QUESTION,
        TEMPLATE,
        UNCOMPARED,
        beside,
        untestable_items,
    )
    from heldout.overlap.texts.scan import forget_texts, scan_text_part, scan_texts

__all__ = [
    "ALPHAS",
    "ANOTHER",
    "BESIDE",
    "BY_DIGEST",
    "CHANGED",
    "CONTAINED",
    "COPIES",
    "COPIES_SEEN",
    "DEFAULT",
    "DISAGREE",
    "DISMISSED_ALONE",
    "DOUBTFUL_REWORDING",
    "EDITED",
    "FULLER",
    "GRAVEST",
    "IN_PART",
    "JUDGED_DIFFERENT",
    "KINDS",
    "LIGHT_COPY",
    "MISTAKEN",
    "NEAREST",
    "NO_OPENCV",
    "NO_PICTURE",
    "NO_WORDS",
    "PARAPHRASE",
    "PDQ",
    "PHASH",
    "PLACE",
    "POSSIBLE_COPIES",
    "RADII",
    "RAISED_ALONE",
    "RECOLOURED",
    "RELATIONS",
    "RENUMBERED",
    "ROWS",
    "SAME",
    "SAME_CAPTION",
    "SAME_ITEM",
    "SAME_QUESTION",
    "SUREST",
    "TEMPLATE",
    "TEXT_RELATIONS",
    "TOO_PLAIN",
    "TOO_SMALL",
    "UNCOMPARED",
    "UNDECIDED_WORDS",
    "Bounds",
    "Calibration",
    "CalibrationPlan",
    "CondensedMatches",
    "ControlRun",
    "ControlSet",
    "CorpusScan",
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
    "Part",
    "Relation",
    "SearchSample",
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
    "condensed_matches",
    "degrees_of",
    "embed_corpus",
    "evidence_field",
    "flag_p",
    "forget_texts",
    "installed_text_encoder",
    "is_compiled",
    "item_words",
    "judge_texts",
    "label_beside",
    "leakage_matrix",
    "loose",
    "mask",
    "match_batches",
    "match_subject",
    "not_agreed",
    "open_encoder",
    "open_matrix",
    "open_text_encoder",
    "pair_hash",
    "pair_subject",
    "parse_bounds",
    "parts",
    "phash",
    "quantiles_of",
    "read_identity",
    "read_matches",
    "read_text_matches",
    "recognised",
    "register",
    "sample_search",
    "scan",
    "scan_part",
    "scan_text_part",
    "scan_texts",
    "script",
    "text_pairs",
    "text_rows",
    "text_subject",
    "unit",
    "untestable_items",
    "upright_rows",
    "whole_pictures",
    "with_subjects",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="audit_overlap")
