"""Asking with shared pictures against the plain loop: one question, one processor call, one generate.

    python bench/asking.py [--pictures 6] [--questions 4] [--repeat 3] [--device cpu]

A LLaVA-shaped model with random weights, built here. Questions on one picture are asked in every rotation
of their options. Both sides run in one process, in turns; the best of each counts; the words must be equal.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from heldout.benchmark import Benchmark, Example
from heldout.image import ImageRef, InlineBytes
from heldout.model.asking import expand, parse_variants, write
from heldout.model.local import LocalModel
from heldout.model.local.load import LoadedModel, load
from heldout.model.request import Prompt, Reply, Text

WORDS = ["liver", "heart", "left lung", "right lung", "spleen", "kidney", "colon", "stomach"]
CHAT = (
    "{% for m in messages %}USER: {% for c in m.content %}{% if c.type == 'image' %}<image>\n"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)


def build(folder: Path, width: int, layers: int) -> None:
    import transformers as t
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(
        [" ".join(WORDS), "Which organ is shown? Answer with the letter"] * 9, trainer
    )
    words = t.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")
    words.add_special_tokens({"additional_special_tokens": ["<image>"]})
    torch.manual_seed(0)
    config = t.LlavaConfig(
        vision_config=t.CLIPVisionConfig(
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=layers,
            num_attention_heads=8,
            image_size=224,
            patch_size=14,
        ),
        text_config=t.LlamaConfig(
            vocab_size=len(words),
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=8,
            max_position_embeddings=2048,
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )
    processor = t.LlavaProcessor(
        t.CLIPImageProcessor(size={"shortest_edge": 224}, crop_size={"height": 224, "width": 224}),
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=CHAT,
        num_additional_image_tokens=1,
    )
    t.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def prompts(pictures: int, questions: int) -> list[Prompt]:
    examples = []
    rng = np.random.default_rng(0)
    for number in range(pictures):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (336, 336, 3), dtype=np.uint8)).save(buffer, "PNG")
        ref = ImageRef(f"{number}.png", InlineBytes(buffer.getvalue(), f"{number}.png"))
        for question in range(questions):
            options = tuple(WORDS[(question + k) % 8] for k in range(4))
            text = f"Which organ is shown at place {question}?"
            examples.append(Example(f"{number}-{question}", (ref,), text, options, options[0], 0))
    bench = Benchmark("made", tuple(examples))
    made = expand(bench, bench.examples, parse_variants("rotation-all"))
    return [Prompt(write(question), len(question.options)) for question in made.questions]


def plain(loaded: LoadedModel, asked: list[Prompt], most: int) -> dict[str, str]:
    replies = {}
    for prompt in asked:
        content: list[dict[str, Any]] = [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
            for part in prompt.request.content
        ]
        text = loaded.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        images = [ref.open().convert("RGB") for ref in prompt.request.images]
        inputs = loaded.processor(text=[text], images=[images], return_tensors="pt")
        inputs = inputs.to(loaded.model.device)
        with torch.inference_mode():
            made = loaded.model.generate(**inputs, max_new_tokens=most, do_sample=False)
        words = made[0, inputs["input_ids"].shape[1] :]
        replies[prompt.request.id] = loaded.tokenizer.decode(words, skip_special_tokens=True)
    return replies


def shared(loaded: LoadedModel, asked: list[Prompt], most: int) -> dict[str, str]:
    kept: list[Reply] = []
    for _ in LocalModel(loaded, "made").asker(most).ask(asked, kept.append):
        continue
    return {reply.id: reply.text for reply in kept}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=6)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), chosen.width, chosen.layers)
        loaded = load(
            folder, revision=None, dtype="float32", device=chosen.device, trust_remote_code=False
        )
    asked = prompts(chosen.pictures, chosen.questions)
    best = {"plain": float("inf"), "shared": float("inf")}
    replies: dict[str, dict[str, str]] = {}
    for _ in range(chosen.repeat):
        for name, side in (("plain", plain), ("shared", shared)):
            start = time.perf_counter()
            replies[name] = side(loaded, asked, chosen.most)
            best[name] = min(best[name], time.perf_counter() - start)
    equal = sum(replies["plain"][one] == replies["shared"][one] for one in replies["plain"])
    print(
        json.dumps(
            {
                "prompts": len(asked),
                "equal_replies": equal,
                "plain_s": round(best["plain"], 2),
                "shared_s": round(best["shared"], 2),
                "ratio": round(best["plain"] / best["shared"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
