"""A model under test: what it gave to every item, and where that came from."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.model.asking.own_grades import OwnGrades, compare_grades, own_grades_of, recorded_remarks
    from heldout.model.asking.paraphrase import write_paraphrases
    from heldout.model.asking.prompts import Journal, Replied, ask_prompts, prompt_key
    from heldout.model.asking.question import MOST_OPTIONS, STAGE, Question, original, picture_digest
    from heldout.model.asking.recorded import RecordedAnswers, read_answers
    from heldout.model.asking.recorded_rows import RecordedFile, RecordedRow, read_recorded_rows
    from heldout.model.asking.stage import answer_row, ask_questions, graded, replace_left_out, replace_variants, shown_prompts
    from heldout.model.asking.summary import Accuracy, Reading, Summary, Unread, summarise, unread_of
    from heldout.model.asking.template import template_name, write
    from heldout.model.asking.twin_origin import twin_origin
    from heldout.model.asking.variants import BOUND, Variant, expand, item_random, parse_variants
    from heldout.model.endpoint.capabilities import as_json, enables, probe
    from heldout.model.endpoint.chat import FAILED, ChatEndpoint
    from heldout.model.endpoint.connection import Connection, EndpointError, RefusedError, TimedOutError, checked_address, in_parallel
    from heldout.model.endpoint.endpoint import Endpoint
    from heldout.model.endpoint.pace import Backoff, Pace, TokenPace
    from heldout.model.endpoint.parity import check_parity
    from heldout.model.endpoint.settings import ModelEndpoint, open_endpoint, read_key
    from heldout.model.item_scores import DOCUMENT, alternatives, by_picture, joint_request, neighbour_request, score_items, score_options, shows_again
    from heldout.model.local.layout import Layout, Row
    from heldout.model.local.load import Family, Loaded, image_token_id, load
    from heldout.model.local.local_model import LocalModel
    from heldout.model.local.passes import moments
    from heldout.model.local.running import RunningModel
    from heldout.model.local.writing import UnwritableError, Writer
    from heldout.model.onnx.card import CARD, CHAT_TEMPLATE, DECODER, NEEDED, PROJECTOR, TOKENIZER, VISION, Card, Decoder, Preparation, Source, file_sha256, read_card
    from heldout.model.onnx.graphs import FEATURES, IDS, LOGITS, PICTURES, PIXELS, PLACES, ROWS, SLOTS, past_names, present_names
    from heldout.model.onnx.onnx_model import OnnxModel
    from heldout.model.onnx.processor import LightTokenizer, prepare
    from heldout.model.opening import ONNX, onnx_folder, open_model
    from heldout.model.order import AFTER_RELEASED, CANONICAL, CONTEXT, JointPlan, JointReading, plan_joint, plan_order_joint, score_order_joint, score_order_neighbour
    from heldout.model.prediction_files import ALIASES, SYNONYMS, Columns, as_truth, open_predictions
    from heldout.model.prompt import TEMPLATE, placed, question_request
    from heldout.model.recorded import Recorded, read_recorded, save_scores
    from heldout.model.request import CUT, REFUSED, STOPPED, Asker, Prompt, Reply, Request, Score, Scorer, Text
    from heldout.model.scoring import TRANSIENT, Answers, score_requests
    from heldout.model.self_check import SAMPLE, Scored, SelfCheck, ablation_checks, check_scores, keep_checks, save_checks, truncation_check
    from heldout.model.tables import claim_model, forget_detections, replace_dropped, replace_rows, stage_folder

__all__ = [
    "AFTER_RELEASED",
    "ALIASES",
    "BOUND",
    "CANONICAL",
    "CARD",
    "CHAT_TEMPLATE",
    "CONTEXT",
    "CUT",
    "DECODER",
    "DOCUMENT",
    "FAILED",
    "FEATURES",
    "IDS",
    "LOGITS",
    "MOST_OPTIONS",
    "NEEDED",
    "ONNX",
    "PICTURES",
    "PIXELS",
    "PLACES",
    "PROJECTOR",
    "REFUSED",
    "ROWS",
    "SAMPLE",
    "SLOTS",
    "STAGE",
    "STOPPED",
    "SYNONYMS",
    "TEMPLATE",
    "TOKENIZER",
    "TRANSIENT",
    "VISION",
    "Accuracy",
    "Answers",
    "Asker",
    "Backoff",
    "Card",
    "ChatEndpoint",
    "Columns",
    "Connection",
    "Decoder",
    "Endpoint",
    "EndpointError",
    "Family",
    "JointPlan",
    "JointReading",
    "Journal",
    "Layout",
    "LightTokenizer",
    "Loaded",
    "LocalModel",
    "ModelEndpoint",
    "OnnxModel",
    "OwnGrades",
    "Pace",
    "Preparation",
    "Prompt",
    "Question",
    "Reading",
    "Recorded",
    "RecordedAnswers",
    "RecordedFile",
    "RecordedRow",
    "RefusedError",
    "Replied",
    "Reply",
    "Request",
    "Row",
    "RunningModel",
    "Score",
    "Scored",
    "Scorer",
    "SelfCheck",
    "Source",
    "Summary",
    "Text",
    "TimedOutError",
    "TokenPace",
    "Unread",
    "UnwritableError",
    "Variant",
    "Writer",
    "ablation_checks",
    "alternatives",
    "answer_row",
    "as_json",
    "as_truth",
    "ask_prompts",
    "ask_questions",
    "by_picture",
    "check_parity",
    "check_scores",
    "checked_address",
    "claim_model",
    "compare_grades",
    "enables",
    "expand",
    "file_sha256",
    "forget_detections",
    "graded",
    "image_token_id",
    "in_parallel",
    "item_random",
    "joint_request",
    "keep_checks",
    "load",
    "moments",
    "neighbour_request",
    "onnx_folder",
    "open_endpoint",
    "open_model",
    "open_predictions",
    "original",
    "own_grades_of",
    "parse_variants",
    "past_names",
    "picture_digest",
    "placed",
    "plan_joint",
    "plan_order_joint",
    "prepare",
    "present_names",
    "probe",
    "prompt_key",
    "question_request",
    "read_answers",
    "read_card",
    "read_key",
    "read_recorded",
    "read_recorded_rows",
    "recorded_remarks",
    "replace_dropped",
    "replace_left_out",
    "replace_rows",
    "replace_variants",
    "save_checks",
    "save_scores",
    "score_items",
    "score_options",
    "score_order_joint",
    "score_order_neighbour",
    "score_requests",
    "shown_prompts",
    "shows_again",
    "stage_folder",
    "summarise",
    "template_name",
    "truncation_check",
    "twin_origin",
    "unread_of",
    "write",
    "write_paraphrases",
]

__getattr__ = load_on_first_use(__name__, __file__)
