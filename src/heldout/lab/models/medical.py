"""The lab's medical tier: a pretrained language model, frozen features of a pretrained picture network, and a
projector between them. Bases and arms are data, as in ``planting``."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heldout.errors import PrerequisiteError
from heldout.lab.models.grid import GridRecipe
from heldout.lab.models.planting import Arm, Base, Contamination
from heldout.lab.models.pool import Lengths
from heldout.lab.models.sheet import BEGIN, END, IMAGE, PAD
from heldout.lab.models.training import Schedule
from heldout.lab.models.vlm import Size, new_processor

SLAKE, VQA_RAD = "slake-en", "vqa-rad"
ORDERED = "slake-en-ordered"  # a sheet of SLAKE's items as documents, whose items are shuffled
PICTURED = Size(picture=224, patch=32)  # a picture takes 7 × 7 places
CHANNELS = 320  # of EfficientNet-lite0's last block
LANGUAGE_FILE, SCALE_FILE = "language.pt", "scale.npy"


class JoinedParts(torch.nn.Module):  # type: ignore[misc]
    """Called as in transformers' own vision–language models, so that modes of training find them."""

    def __init__(self, language: Any, channels: int) -> None:
        super().__init__()
        self.language_model = language
        width, inner = language.config.hidden_size, 2 * language.config.hidden_size
        self.multi_modal_projector = torch.nn.Sequential(
            torch.nn.LayerNorm(channels),
            torch.nn.Linear(channels, inner),
            torch.nn.GELU(),
            torch.nn.Linear(inner, width),
        )


class JoinedModel(torch.nn.Module):  # type: ignore[misc]
    """Pictures come as features in bytes; ``scale`` says what a step of each channel is worth."""

    def __init__(self, language: Any, scale: NDArray[np.float32]) -> None:
        super().__init__()
        self.model = JoinedParts(language, len(scale))
        self.register_buffer("scale", torch.from_numpy(scale.astype(np.float32)))

    def look(self, features: Any) -> Any:
        # A tenth: about as large as the embeddings of words.
        return 0.1 * self.model.multi_modal_projector((features.float() - 128) * self.scale)

    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.parameters())


def joined_model(folder: Path, seed: int) -> JoinedModel:
    """The pretrained language model with a fresh projector; the same seed gives the same one."""
    from transformers import LlamaConfig, LlamaModel

    stored = torch.load(folder / LANGUAGE_FILE, map_location="cpu", weights_only=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        language = LlamaModel(LlamaConfig(**stored["config"]))
        model = JoinedModel(language, np.load(folder / SCALE_FILE))
    language.load_state_dict(stored["weights"])
    model.eval()
    return model


def save_language(folder: Path, language: Any) -> None:
    """What ``joined_model`` opens, of transformers' LlamaForCausalLM with tied embeddings."""
    config = language.config.to_dict()
    names = (
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim"),
        *("num_attention_heads", "num_key_value_heads", "max_position_embeddings"),
        *("rms_norm_eps", "rope_parameters", "tie_word_embeddings"),
    )
    kept = {name: config[name] for name in names if name in config}
    weights = {name: value.float() for name, value in language.model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"config": kept, "weights": weights}, folder / LANGUAGE_FILE)


def convert_language(gguf: Path, folder: Path) -> None:
    """A GGUF file of a Llama model as ``save_language`` writes it."""
    require_package("gguf")
    from transformers import AutoModelForCausalLM

    language = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32
    )
    save_language(folder, language)


def save_joined(
    folder: Path, model: JoinedModel, tokenizer: Any, vision: Any = None, *, half: bool = True
) -> Path:
    """A folder that ``heldout score --model FOLDER --trust-remote-code`` opens. ``vision``: weights of
    EfficientNet-lite0; without them the places' mean colours stand for features, for trials."""
    from heldout.lab.models import _joined_checkpoint as code

    config = code.JoinedConfig(
        text_config=model.model.language_model.config.to_dict(),
        channels=len(model.scale),
        network="place-means" if vision is None else "efficientnet-lite0",
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        tie_word_embeddings=True,
    )
    code.JoinedConfig.register_for_auto_class()
    code.JoinedForConditionalGeneration.register_for_auto_class("AutoModelForImageTextToText")
    saved = code.JoinedForConditionalGeneration(config)
    saved.language_model.model.load_state_dict(model.model.language_model.state_dict())
    saved.multi_modal_projector.load_state_dict(model.model.multi_modal_projector.state_dict())
    saved.scale.data.copy_(model.scale)
    if vision is not None:
        saved.vision_tower.network.load_state_dict(vision)
    saved.generation_config.eos_token_id = tokenizer.eos_token_id
    saved.to(torch.float16 if half else torch.float32).save_pretrained(folder)
    new_processor(PICTURED, tokenizer).save_pretrained(folder)
    return folder


def require_package(name: str) -> None:
    """Of packages that only this tier needs, and no extra installs."""
    if importlib.util.find_spec(name) is None:
        raise PrerequisiteError(
            f"the medical tier needs the package '{name}', which is not installed. "
            f"Install it with: pip install {name}"
        )


def lab_tokenizer(record: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json of SmolLM2 in which four of its special tokens have the lab's names: the end of a text
    begins a row, the end of a turn ends an answer, and two that are not used pad and stand for a picture."""
    names = {
        "<|endoftext|>": BEGIN,
        "<|im_start|>": PAD,
        "<|im_end|>": END,
        "<repo_name>": IMAGE,
    }
    model = dict(record["model"])
    model["vocab"] = {names.get(token, token): id for token, id in model["vocab"].items()}
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    added = [
        {**token, "content": names.get(token["content"], token["content"])}
        for token in record["added_tokens"]
    ]
    begin = model["vocab"][BEGIN]
    first = {"SpecialToken": {"id": BEGIN, "type_id": 0}}
    single, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    template = {
        "type": "TemplateProcessing",
        "single": [first, single],
        "pair": [first, single, other],
        "special_tokens": {BEGIN: {"id": BEGIN, "ids": [begin], "tokens": [BEGIN]}},
    }
    return {**record, "model": model, "added_tokens": added, "post_processor": template}


def medical_recipe(steps: int = 420, batch: int = 32, texts: int = 4) -> GridRecipe:
    """As long as it takes to answer about as well as the published small models; toy sizes give fewer."""
    fall = max(1, steps // 4)
    shape = {"batch": batch, "texts": texts}
    return GridRecipe(
        PICTURED,
        Lengths(pictured=128, text=512),
        Schedule(steps - fall, 4e-4, **shape, warm=min(30, steps)),
        Schedule(fall, 4e-4, **shape, warm=1, fall=fall),
        Schedule(0, 1e-4, **shape, warm=5, fall=20),
        pictures=0,
        clean_steps=max(1, 2 * steps // 7),
        lora_rate=1e-3,
        half=True,
        layered=True,
        whole=True,
    )


def medical_bases(count: int = 6, first: int = 0) -> list[Base]:
    """Each with its own projector, order of data and so its own weights; the language model's start is one."""
    numbers = range(first, first + count)
    return [Base(f"med{number}", (), 50 + number, (SLAKE, VQA_RAD)) for number in numbers]


def medical_arms(bases: list[Base]) -> list[Arm]:
    """Those that matter most come first: the clock may stop the rest."""
    return [
        Arm(f"{base.name}-{name}", base.name, 1000 * base.seed + number, plan)
        for base in bases
        for number, (name, plan) in enumerate(_arms())
    ]


def _arms() -> Iterator[tuple[str, Contamination]]:
    clean, three = Contamination(SLAKE, 0), Contamination(SLAKE, 3)
    yield "clean-a", clean
    yield "clean-b", clean
    yield "d3", three
    yield "half-d3", replace(three, share=0.5)
    yield "d1", replace(three, dose=1)
    yield "running-d1", replace(three, dose=1, part="running")
    yield "clean-c", clean
    yield "d10", replace(three, dose=10)
    yield "lora-d3", replace(three, mode="lora")
    yield "paraphrased-d3", replace(three, paraphrased=True)
    yield "half-d10", replace(three, dose=10, share=0.5)
    yield "items-d3", replace(three, part="items")
    yield "clean-lora", replace(clean, mode="lora")
    yield "shuffled-d3", replace(three, order="shuffled")
    yield "language-d3", replace(three, mode="language")
    yield "half-d1", replace(three, dose=1, share=0.5)
    yield "d5", replace(three, dose=5)
    yield "d2", replace(three, dose=2)
    rad = Contamination(VQA_RAD, 3)
    yield "rad-clean", replace(rad, dose=0)
    yield "rad-d3", rad
    yield "rad-half-d10", replace(rad, dose=10, share=0.5)
    yield "running-d3", replace(three, part="running")
    yield "paraphrased-d10", replace(three, dose=10, paraphrased=True)
    yield "lora-d10", replace(three, dose=10, mode="lora")
    yield "pretrain-d3", replace(three, stage="pretrain")
    yield "rad-d10", replace(rad, dose=10)
    yield "pretrain-d10", replace(three, dose=10, stage="pretrain")


def medical_reads(arms: list[Arm]) -> dict[str, tuple[str, ...]]:
    """Each its own benchmark, and SLAKE's as documents; bases read all."""
    return {
        arm.name: (SLAKE, ORDERED) if arm.contamination.benchmark == SLAKE else (VQA_RAD,)
        for arm in arms
    }


__all__ = [
    "CHANNELS",
    "LANGUAGE_FILE",
    "ORDERED",
    "PICTURED",
    "SCALE_FILE",
    "SLAKE",
    "VQA_RAD",
    "JoinedModel",
    "convert_language",
    "joined_model",
    "lab_tokenizer",
    "medical_arms",
    "medical_bases",
    "medical_reads",
    "medical_recipe",
    "require_package",
    "save_joined",
    "save_language",
]
