"""Tiny models with random weights, saved as folders: one of text, one of pictures and text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEXT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "<|end|>", "<|user|>", "<|assistant|>", "<image>"]


def tokenizer(texts: list[str], size: int = 400) -> Any:
    """A byte-level BPE of these texts, which can spell everything."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="<|end|>",
        clean_up_tokenization_spaces=False,
        extra_special_tokens={"image_token": "<image>"},
    )
    fast.chat_template = TEXT_TEMPLATE
    return fast


def text_model(words: Any, *, hidden: int = 64, spread: float = 0.3) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        initializer_range=spread,
        pad_token_id=words.pad_token_id,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()


def picture_model(words: Any) -> tuple[Any, Any]:
    """A LLaVA of two small layers each, and its processor: 4 picture tokens of 16 x 16 pixels."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=16,
        initializer_range=0.3,
    )
    text = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        initializer_range=0.3,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=words.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
        vision_feature_select_strategy="default",
    )
    model = LlavaForConditionalGeneration(config).eval()
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer=words,
        patch_size=16,
        vision_feature_select_strategy="default",
        chat_template=TEXT_TEMPLATE,
        num_additional_image_tokens=1,
    )
    return model, processor


def save(folder: Path, model: Any, words: Any) -> Path:
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
