"""Real architectures with random weights, a tokenizer made here, saved as a user would find them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers as t
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from heldout.model.local._remote import names_of_transformers_4

WORDS = """Question: which organ is shown in this picture? Answer: the liver and the left lung
Is there a mass? assistant\nyes assistant\nno ASSISTANT: yes ASSISTANT: no Answer: yes Answer: no
user model pleural effusion, cardiomegaly; x-ray, CT and MRI of the abdomen. What colour is it? 1 2 3
<image>\n answer en what is abnormal? grey white matter nodule fracture none of these"""

IM_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}"
    "IMAGE{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
COLON_CHAT = (
    "{% for m in messages %}USER: {% for c in m.content %}{% if c.type == 'image' %}IMAGE"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)
GEMMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>user\n{% for c in m.content %}"
    "{% if c.type == 'image' %}IMAGE{% else %}{{ c.text }}{% endif %}{% endfor %}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)

TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
    "initializer_range": 0.2,
}


@cache
def _trained(split: bool) -> str:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    borders = [] if split else ["\nyes", "\nno", ": yes", ": no"] * 50
    made.train_from_iterator(WORDS.split("\n") * 4 + [WORDS] * 4 + borders, trainer)
    return made.to_str()


def tokenizer(
    *special: str, bos: str | None = None, split: bool = True, side: str = "right", **named: str
) -> Any:
    """Byte-level BPE; without ``split`` tokens cross the borders of words and lines."""
    made = Tokenizer.from_str(_trained(split))
    found = t.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="<eos>",
        **({"bos_token": bos} if bos else {}),
        padding_side=side,
    )
    found.add_special_tokens({"additional_special_tokens": [*special, *named.values()]})
    for name, token in named.items():
        setattr(found, name, token)
        found.init_kwargs[name] = token
    if bos:
        number = found.convert_tokens_to_ids(bos)
        found._tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, number)]
        )
    return found


def _named(tok: Any, **tokens: str) -> Any:
    """Some processors ask their tokenizer for the tokens of pictures by name."""
    tok.add_special_tokens({"additional_special_tokens": list(tokens.values())})
    tok._set_model_specific_special_tokens(tokens)
    return tok


def qwen2_vl(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer(
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
        side=side,
        split=split,
    )
    config = t.Qwen2VLConfig(
        text_config={**TEXT, "vocab_size": len(tok), "rope_parameters": _mrope()},
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 32,
            "mlp_ratio": 2,
            "num_heads": 4,
            "patch_size": 14,
            "initializer_range": 0.2,
        },
        **_qwen_ids(tok),
    )
    return t.Qwen2VLForConditionalGeneration(config), t.Qwen2VLProcessor(
        t.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=84 * 84),
        tok,
        t.Qwen2VLVideoProcessor(),
        chat_template=IM_CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )


def qwen2_5_vl(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer(
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
        side=side,
        split=split,
    )
    config = t.Qwen2_5_VLConfig(
        text_config={**TEXT, "vocab_size": len(tok), "rope_parameters": _mrope()},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "patch_size": 14,
            "window_size": 56,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            "initializer_range": 0.2,
        },
        **_qwen_ids(tok),
    )
    return t.Qwen2_5_VLForConditionalGeneration(config), t.Qwen2_5_VLProcessor(
        t.Qwen2VLImageProcessor(min_pixels=28 * 28, max_pixels=84 * 84),
        tok,
        t.Qwen2VLVideoProcessor(),
        chat_template=IM_CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )


def qwen3_vl(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer(
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
        side=side,
        split=split,
    )
    config = t.Qwen3VLConfig(
        text_config={**TEXT, "vocab_size": len(tok), "head_dim": 8, "rope_parameters": _mrope()},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 4,
            "patch_size": 16,
            "out_hidden_size": 32,
            "deepstack_visual_indexes": [0, 1],
            "num_position_embeddings": 16,
            "initializer_range": 0.2,
        },
        **_qwen_ids(tok),
    )
    return t.Qwen3VLForConditionalGeneration(config), t.Qwen3VLProcessor(
        t.Qwen2VLImageProcessor(patch_size=16, min_pixels=32 * 32, max_pixels=96 * 96),
        tok,
        t.Qwen3VLVideoProcessor(),
        chat_template=IM_CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )


def internvl(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<|im_start|>", "<|im_end|>", side=side, split=split)
    _named(
        tok,
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    vision = {**VISION, "image_size": [28, 28], "patch_size": [7, 7]}
    config = t.InternVLConfig(
        text_config={"model_type": "qwen2", **TEXT, "vocab_size": len(tok)},
        vision_config=vision,
        image_seq_length=4,
        image_token_id=tok.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )
    processor = t.InternVLProcessor(
        t.GotOcr2ImageProcessor(
            size={"height": 28, "width": 28}, crop_to_patches=True, max_patches=2
        ),
        tok,
        t.InternVLVideoProcessor(),
        image_seq_length=4,
        chat_template=IM_CHAT.replace("IMAGE", "<IMG_CONTEXT>\n"),
    )
    return t.InternVLForConditionalGeneration(config), processor


def llava(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<image>", bos="<s>", side=side, split=split)
    config = t.LlavaConfig(
        text_config=t.LlamaConfig(**TEXT, vocab_size=len(tok)),
        vision_config=t.CLIPVisionConfig(**VISION, projection_dim=32),
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    processor = t.LlavaProcessor(
        t.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tok,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=COLON_CHAT.replace("IMAGE", "<image>\n"),
    )
    return t.LlavaForConditionalGeneration(config), processor


def llava_onevision(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<|im_start|>", "<|im_end|>", "<image>", "<video>", side=side, split=split)
    config = t.LlavaOnevisionConfig(
        text_config=t.Qwen2Config(**TEXT, vocab_size=len(tok)),
        vision_config=t.SiglipVisionConfig(**VISION, vision_use_head=False),
        image_token_index=tok.convert_tokens_to_ids("<image>"),
        video_token_index=tok.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=[[28, 28], [28, 56], [56, 28]],
    )
    processor = t.LlavaOnevisionProcessor(
        t.LlavaOnevisionImageProcessor(
            size={"height": 28, "width": 28}, image_grid_pinpoints=[[28, 28], [28, 56], [56, 28]]
        ),
        tok,
        t.LlavaOnevisionVideoProcessor(),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=IM_CHAT.replace("IMAGE", "<image>\n"),
    )
    return t.LlavaOnevisionForConditionalGeneration(config), processor


def blip_2(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<image>", bos="</s>", side=side, split=split)
    config = t.Blip2Config(
        vision_config={**VISION, "initializer_range": 0.2},
        qformer_config=_qformer(tok),
        text_config={
            "model_type": "opt",
            "vocab_size": len(tok),
            "hidden_size": 32,
            "ffn_dim": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 512,
            "init_std": 0.2,
        },
        num_query_tokens=5,
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    return t.Blip2ForConditionalGeneration(config), t.Blip2Processor(
        _blip_images(), tok, num_query_tokens=5
    )


def blip_2_t5(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<image>", side=side, split=split)
    config = t.Blip2Config(
        vision_config=VISION,
        qformer_config=_qformer(tok),
        text_config=_t5(tok),
        num_query_tokens=5,
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    return t.Blip2ForConditionalGeneration(config), t.Blip2Processor(
        _blip_images(), tok, num_query_tokens=5
    )


def instructblip(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<image>", bos="<s>", side=side, split=split)
    reader = tokenizer(bos="[CLS]", side=side)
    config = t.InstructBlipConfig(
        vision_config=VISION,
        qformer_config=_qformer(reader),
        text_config={"model_type": "llama", **TEXT, "vocab_size": len(tok)},
        num_query_tokens=5,
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    return t.InstructBlipForConditionalGeneration(config), t.InstructBlipProcessor(
        _blip_images(), tok, reader, num_query_tokens=5
    )


def gemma3(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<start_of_turn>", "<end_of_turn>", bos="<bos>", side=side, split=split)
    _named(
        tok,
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    config = t.Gemma3Config(
        text_config={
            **TEXT,
            "vocab_size": len(tok),
            "head_dim": 8,
            "sliding_window": 12,
            "query_pre_attn_scalar": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config=VISION,
        mm_tokens_per_image=4,
        boi_token_index=tok.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tok.convert_tokens_to_ids("<end_of_image>"),
        image_token_index=tok.convert_tokens_to_ids("<image_soft_token>"),
    )
    processor = t.Gemma3Processor(
        t.Gemma3ImageProcessor(size={"height": 28, "width": 28}),
        tok,
        image_seq_length=4,
        chat_template=GEMMA_CHAT.replace("IMAGE", "<start_of_image>"),
    )
    return t.Gemma3ForConditionalGeneration(config), processor


def idefics3(side: str, split: bool) -> tuple[Any, Any]:
    return _idefics(side, split, t.Idefics3Config, t.Idefics3ForConditionalGeneration, False)


def smolvlm(side: str, split: bool) -> tuple[Any, Any]:
    return _idefics(side, split, t.SmolVLMConfig, t.SmolVLMForConditionalGeneration, True)


def _idefics(
    side: str, split: bool, config_class: Any, model_class: Any, smol: bool
) -> tuple[Any, Any]:
    tok = tokenizer(
        "<fake_token_around_image>",
        "<image>",
        "<global-img>",
        "<end_of_utterance>",
        "<|im_start|>",
        *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
        side=side,
        split=split,
    )
    if smol:
        _named(
            tok,
            fake_image_token="<fake_token_around_image>",
            image_token="<image>",
            global_image_token="<global-img>",
            end_of_utterance_token="<end_of_utterance>",
        )
    config = config_class(
        text_config={"model_type": "llama", **TEXT, "vocab_size": len(tok), "pad_token_id": 0},
        vision_config={**VISION, "patch_size": 7},
        scale_factor=2,
        image_token_id=tok.convert_tokens_to_ids("<image>"),
    )
    images = (t.SmolVLMImageProcessor if smol else t.Idefics3ImageProcessor)(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}
    )
    chat = (
        "{% for m in messages %}<|im_start|>User:{% for c in m.content %}{% if c.type == 'image' %}"
        "<image>{% else %}{{ c.text }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}"
    )
    if smol:
        processor = t.SmolVLMProcessor(
            images, tok, t.SmolVLMVideoProcessor(), image_seq_len=4, chat_template=chat
        )
    else:
        processor = t.Idefics3Processor(images, tok, image_seq_len=4, chat_template=chat)
    return model_class(config), processor


def paligemma(side: str, split: bool) -> tuple[Any, Any]:
    tok = tokenizer("<image>", bos="<bos>", side=side, split=split)
    images = t.SiglipImageProcessor(size={"height": 28, "width": 28})
    images.image_seq_length = 4
    processor = t.PaliGemmaProcessor(images, tok)
    config = t.PaliGemmaConfig(
        text_config={"model_type": "gemma", **TEXT, "vocab_size": len(tok), "head_dim": 8},
        vision_config={"model_type": "siglip_vision_model", **VISION},
        image_token_index=tok.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )
    return t.PaliGemmaForConditionalGeneration(config), processor


def _mrope() -> dict[str, Any]:
    return {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}


def _qwen_ids(tok: Any) -> dict[str, int]:
    return {
        "image_token_id": tok.convert_tokens_to_ids("<|image_pad|>"),
        "video_token_id": tok.convert_tokens_to_ids("<|video_pad|>"),
        "vision_start_token_id": tok.convert_tokens_to_ids("<|vision_start|>"),
        "vision_end_token_id": tok.convert_tokens_to_ids("<|vision_end|>"),
    }


def _qformer(tok: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tok),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "encoder_hidden_size": 32,
        "initializer_range": 0.2,
    }


def _t5(tok: Any) -> dict[str, Any]:
    return {
        "model_type": "t5",
        "vocab_size": len(tok),
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
        "is_encoder_decoder": True,
    }


def _blip_images() -> Any:
    return t.BlipImageProcessor(size={"height": 28, "width": 28})


FAMILIES: dict[str, Callable[[str, bool], tuple[Any, Any]]] = {
    made.__name__: made
    for made in (
        qwen2_vl,
        qwen2_5_vl,
        qwen3_vl,
        internvl,
        llava,
        llava_onevision,
        blip_2,
        blip_2_t5,
        instructblip,
        gemma3,
        idefics3,
        smolvlm,
        paligemma,
    )
}


CODE = Path(__file__).parent / "remote_code"


def internvl_chat(folder: Path, side: str, split: bool) -> dict[str, Any]:
    """InternVL in the layout of its first release: a tokenizer, no processor."""
    tok = tokenizer(
        "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", side=side, split=split
    )
    tok.save_pretrained(folder)
    return {
        "model_type": "internvl_chat",
        "architectures": ["InternVLChatModel"],
        "auto_map": {
            "AutoConfig": "configuration_internvl_chat.InternVLChatConfig",
            "AutoModel": "modeling_internvl_chat.InternVLChatModel",
            "AutoModelForCausalLM": "modeling_internvl_chat.InternVLChatModel",
        },
        "llm_config": {**TEXT, "vocab_size": len(tok), "architectures": ["Qwen2ForCausalLM"]},
        "vision_config": {"image_size": 28, "patch_size": 7},
        "force_image_size": 28,
        "dynamic_image_size": True,
        "use_thumbnail": True,
        "max_dynamic_patch": 4,
        "ps_version": "v2",
        "template": "internvl2_5",
    }


def chexagent(folder: Path, side: str, split: bool) -> dict[str, Any]:
    """CheXagent-8b: a tokenizer without padding, as its own."""
    tok = tokenizer(bos="<s>", side=side, split=split)
    tok.pad_token = None
    tok.save_pretrained(folder)
    images = {**_blip_images().to_dict(), "processor_class": "CheXagentProcessor"}
    images["auto_map"] = {"AutoProcessor": "processing_chexagent.CheXagentProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(images))
    generation = {"bos_token_id": tok.bos_token_id, "eos_token_id": tok.eos_token_id}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return {
        "model_type": "chexagent",
        "architectures": ["CheXagentForConditionalGeneration"],
        "auto_map": {
            "AutoConfig": "configuration_chexagent.CheXagentConfig",
            "AutoModelForCausalLM": "modeling_chexagent.CheXagentForConditionalGeneration",
        },
        "text_config": {
            "model_type": "mistral",
            **TEXT,
            "vocab_size": len(tok),
            "use_cache": False,
        },
        "num_query_tokens": 5,
        "num_max_images": 2,
    }


#: families whose classes come with the checkpoint, as files next to its weights
REMOTE: dict[str, Callable[[Path, str, bool], dict[str, Any]]] = {
    made.__name__: made for made in (internvl_chat, chexagent)
}


def save(family: str, folder: Path, *, side: str = "right", split: bool = True) -> Path:
    """The family's tiny model in ``folder``. Weights are large enough that every input matters."""
    made = Path(_made(family, side, split).name) / family
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return folder


@cache
def _made(family: str, side: str, split: bool) -> tempfile.TemporaryDirectory[str]:
    """Made once per process: making a model takes longer than what most tests do with it."""
    kept = tempfile.TemporaryDirectory(prefix="tiny-")
    folder = Path(kept.name) / family
    torch.manual_seed(0)
    if family in REMOTE:
        _save_remote(family, folder, side, split)
        return kept
    model, processor = FAMILIES[family](side, split)
    _enlarge(model)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return kept


def _save_remote(family: str, folder: Path, side: str, split: bool) -> Path:
    shutil.copytree(CODE / family, folder, ignore=shutil.ignore_patterns("__pycache__"))
    config = REMOTE[family](folder, side, split)
    (folder / "config.json").write_text(json.dumps(config))
    with names_of_transformers_4():
        made = t.AutoConfig.from_pretrained(folder, trust_remote_code=True)
        door = config["auto_map"]["AutoModelForCausalLM"]
        model = get_class_from_dynamic_module(door, folder)(made)
    _enlarge(model)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _enlarge(model: Any) -> None:
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() >= 2 or "query_tokens" in name:
                weight.normal_(0, 0.25)
