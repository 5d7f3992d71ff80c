"""The small models' tokenizer: byte-level pairs learnt from texts, so that no word is ever unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heldout.errors import require

PAD, BEGIN, END, IMAGE = "<pad>", "<s>", "</s>", "<image>"
SIZE = 1280


def learn_tokenizer(texts: Iterable[str], size: int = SIZE) -> Any:
    """A PreTrainedTokenizerFast. Words keep the blank before them, so that answers decode as written."""
    require("transformers", "hf", "training the lab's models")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, BEGIN, END, IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    made.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A",
        pair=f"{BEGIN} $A $B",
        special_tokens=[(BEGIN, made.token_to_id(BEGIN))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        extra_special_tokens={"image_token": IMAGE},
        clean_up_tokenization_spaces=False,
    )
