"""Scoring a benchmark shaped like SLAKE-En test, against the published audit's loop over its items.

    python bench/scoring.py                                  # a tiny model, on this machine's cores
    python bench/scoring.py --device cuda --shape 7b         # Qwen2.5-VL-7B's shape, bfloat16

1,061 questions on 96 pictures with answers of about four tokens. Weights are random and the tokenizer is
made here: the arithmetic is that of a trained model, and nothing is fetched. The loop takes one item per
forward pass and runs the processor twice per item, on the prompt and on prompt and answer, as the
published audit does; it is timed on every n-th item (--sample) and its rate is what is compared. Both
sides decode pictures from the same bytes and take turns; the best of the repeats counts. Scores of the
sampled items are compared token by token in the dtype that was timed, and once more in float32 on the
tiny shape. Prints a table and one JSON document (--json FILE writes it, too).
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from heldout.image import ImageRef, InlineBytes
from heldout.model.local import LocalModel
from heldout.model.local.load import LoadedModel
from heldout.model.request import Request, Score, Text

SPECIAL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ORGANS = ["liver", "left lung", "right kidney", "spleen", "heart", "stomach", "bladder", "brain"]
FINDINGS = ["mass", "nodule", "pleural effusion", "fracture", "cardiomegaly", "edema", "cyst"]
PLACES = ["upper left", "lower right", "center", "upper right", "lower left"]
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    # The published configuration of Qwen2.5-VL-7B-Instruct.
    "7b": {
        "text": {
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "max_position_embeddings": 128000,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [16, 24, 24],
                "rope_theta": 1e6,
            },
        },
        "vision": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
    },
    "tiny": {
        "text": {
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "vocab_size": 8192,
            "max_position_embeddings": 8192,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [2, 3, 3],
                "rope_theta": 1e6,
            },
        },
        "vision": {
            "depth": 4,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "out_hidden_size": 128,
            "window_size": 112,
            "fullatt_block_indexes": [3],
        },
    },
}


def tokenizer() -> Any:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    rng = np.random.default_rng(0)
    made.train_from_iterator((f"{q}\n{a}" for q, a in asked(rng, 400)), trainer)
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")
    found.add_special_tokens({"additional_special_tokens": SPECIAL})
    return found


def asked(rng: np.random.Generator, count: int) -> list[tuple[str, str]]:
    """Questions and answers in SLAKE's manner, short and long ones."""
    pairs = []
    for _ in range(count):
        organ, other = rng.choice(ORGANS, 2, replace=False)
        finding, place = rng.choice(FINDINGS), rng.choice(PLACES)
        pairs.append(
            [
                (f"Does the picture contain {organ}?", str(rng.choice(["Yes", "No"]))),
                (f"Where is the {finding} in this image?", f"{place} of the {organ}"),
                (
                    "Which organs are part of the digestive system in the picture?",
                    f"{organ}, {other}",
                ),
                (f"What is abnormal in the {organ}?", f"{finding}, {place} side of {organ}"),
            ][int(rng.integers(4))]
        )
    return pairs


def benchmark(questions: int, images: int, side: int) -> list[Request]:
    """Pictures of smooth shades, as JPEG; their sizes vary a little, as in SLAKE."""
    rng = np.random.default_rng(1)
    pictures = []
    for number in range(images):
        rough = Image.fromarray(rng.integers(0, 256, (12, 12), dtype=np.uint8))
        width, height = (side + int(rng.integers(-side // 16, side // 16 + 1)) for _ in range(2))
        buffer = io.BytesIO()
        rough.resize((width, height), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        pictures.append(ImageRef(f"{number}.jpg", InlineBytes(buffer.getvalue(), f"{number}.jpg")))
    return [
        Request(
            f"{n}", (pictures[n * images // questions], Text(question), Text(answer, scored=True))
        )
        for n, (question, answer) in enumerate(asked(rng, questions))
    ]


def random_model(shape: str, device: str, dtype: torch.dtype) -> LoadedModel:
    tok = tokenizer()
    ids = {
        name: tok.convert_tokens_to_ids(token)
        for name, token in (
            ("image_token_id", "<|image_pad|>"),
            ("video_token_id", "<|video_pad|>"),
            ("vision_start_token_id", "<|vision_start|>"),
            ("vision_end_token_id", "<|vision_end|>"),
        )
    }
    config = transformers.Qwen2_5_VLConfig(
        text_config=SHAPES[shape]["text"], vision_config=SHAPES[shape]["vision"], **ids
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=dtype)
    if (
        shape == "tiny"
    ):  # so narrow a model says the same whatever it reads unless its weights are larger
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.1)
    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(),
        tok,
        transformers.Qwen2VLVideoProcessor(),
        chat_template=CHAT,
    )
    return LoadedModel(model.eval().to(device), processor, tok, "random")


def published_loop(loaded: LoadedModel, requests: list[Request]) -> dict[str, list[float]]:
    """One item per forward pass, the processor twice, the head over every position."""
    model, processor = loaded.model, loaded.processor
    scores = {}
    for request in requests:
        image = request.images[0].open().convert("RGB")
        question = next(part.text for part in request.content if isinstance(part, Text))
        turn = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}
        ]
        prompt = processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        alone = processor(text=[prompt], images=[[image]], return_tensors="pt")
        start = alone["input_ids"].shape[1]
        inputs = processor(text=[prompt + request.target], images=[[image]], return_tensors="pt")
        inputs = inputs.to(model.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(model.dtype)
        with torch.inference_mode():
            logits = model(**inputs).logits[0, start - 1 : -1].float()
            p = torch.log_softmax(logits, -1)
            mean = (p.exp() * p).sum(-1)
            ((p.exp() * p.square()).sum(-1) - mean.square()).sqrt().tolist()
            chosen = p.gather(-1, inputs["input_ids"][0, start:, None])[:, 0]
        scores[request.id] = chosen.tolist()
    return scores


def ours(model: LocalModel, requests: list[Request]) -> dict[str, list[float]]:
    given = list(model.score(requests))
    dropped = [one for one in given if not isinstance(one, Score)]
    if dropped:
        raise AssertionError(f"{len(dropped)} items were not scored: {dropped[0]}")
    return {one.id: list(one.logprobs) for one in given if isinstance(one, Score)}


class Peak:
    """The most memory in use since it began: the GPU's, or this process' own."""

    def __init__(self, device: str) -> None:
        self._cuda = device != "cpu"
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5")

    def gigabytes(self) -> float:
        if self._cuda:
            return float(torch.cuda.max_memory_allocated()) / 1e9
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e6


def apart(one: dict[str, list[float]], other: dict[str, list[float]]) -> tuple[float, float]:
    """The largest and the mean difference of a token's log-probability."""
    differences = []
    for identifier, values in other.items():
        if len(values) != len(one[identifier]):
            raise AssertionError(f"item {identifier}: {one[identifier]} against {values}")
        differences += [abs(a - b) for a, b in zip(one[identifier], values, strict=True)]
    return max(differences), sum(differences) / len(differences)


def timed(work: Any, device: str) -> tuple[float, float, Any]:
    peak = Peak(device)
    begun = time.perf_counter()
    result = work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - begun, peak.gigabytes(), result


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    device, shape = arguments.device, arguments.shape
    dtype = getattr(torch, arguments.dtype)
    loaded = random_model(shape, device, dtype)
    requests = benchmark(arguments.questions, arguments.images, arguments.side)
    sample = requests[:: max(1, len(requests) // arguments.sample)]
    model = LocalModel(loaded, "random", batch_tokens=arguments.batch_tokens)
    few = requests[: 2 * arguments.questions // arguments.images]
    ours(model, few)  # kernels are chosen and compiled before anything is timed
    published_loop(loaded, few[:2])
    best = {"ours": (float("inf"), 0.0), "loop": (float("inf"), 0.0)}
    for _ in range(arguments.repeats):
        seconds, peak, scores = timed(lambda: ours(model, requests), device)
        best["ours"] = min(best["ours"], (seconds / len(requests), peak))
        seconds, peak, expected = timed(lambda: published_loop(loaded, sample), device)
        best["loop"] = min(best["loop"], (seconds / len(sample), peak))
    most, mean = apart(scores, expected)
    tokens = [len(values) for values in scores.values()]
    return {
        "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "shape": shape,
        "dtype": str(dtype).removeprefix("torch."),
        "parameters": sum(weight.numel() for weight in loaded.model.parameters()),
        "questions": len(requests),
        "images": arguments.images,
        "prompt_tokens": round(float(np.mean(model.count(requests[::50]))), 1),
        "answer_tokens": round(float(np.mean(tokens)), 2),
        "loop_timed_on": len(sample),
        "ours": _side(best["ours"]),
        "loop": _side(best["loop"]),
        "ratio": round(best["loop"][0] / best["ours"][0], 2),
        "logprob_deviation": round(float(np.std(np.concatenate(list(scores.values())))), 3),
        "largest_difference": most,
        "mean_difference": mean,
    }


def _side(best: tuple[float, float]) -> dict[str, float]:
    return {"items_per_second": round(1 / best[0], 2), "peak_gigabytes": round(best[1], 2)}


def single_precision(device: str) -> float:
    """Largest difference in float32 on the tiny shape, on the same device."""
    loaded = random_model("tiny", device, torch.float32)
    requests = benchmark(44, 4, 256)
    return apart(ours(LocalModel(loaded, "random"), requests), published_loop(loaded, requests))[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--dtype", help="bfloat16 of the 7b shape, float32 of the tiny one")
    parser.add_argument("--questions", type=int, default=1061)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--side", type=int, help="of a picture in pixels; 1024, or 256 on a CPU")
    parser.add_argument("--sample", type=int, default=64, help="items the loop is timed on")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=16_384)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.side is None:
        arguments.side = 256 if arguments.device == "cpu" else 1024
    arguments.dtype = arguments.dtype or {"7b": "bfloat16"}.get(arguments.shape, "float32")
    found = compare(arguments)
    found["largest_difference_float32_tiny"] = single_precision(arguments.device)
    print(f"{'':6} {'items/s':>9} {'peak GB':>8}")
    for name in ("ours", "loop"):
        side = found[name]
        print(f"{name:6} {side['items_per_second']:9.2f} {side['peak_gigabytes']:8.2f}")
    print(f"ratio {found['ratio']}, largest difference {found['largest_difference']:.2g}")
    document = json.dumps(found, indent=1)
    print(document)
    if arguments.json:
        arguments.json.write_text(document + "\n")


if __name__ == "__main__":
    main()
