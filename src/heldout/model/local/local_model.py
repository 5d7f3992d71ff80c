"""LocalModel: the transformers backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.model.local.answering import Parts
from heldout.model.local.forward import Forward
from heldout.model.local.layout import Layout
from heldout.model.local.load import Loaded, family_of, image_token_id, load, text_config
from heldout.model.local.passes import BATCH_TOKENS
from heldout.model.local.running import RunningModel
from heldout.model.local.writing import Writer
from heldout.model.prompt import TEMPLATE


class LocalModel(RunningModel):
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    def __init__(
        self, loaded: Loaded, name: str, *, batch_tokens: int = BATCH_TOKENS, sharing: bool = True
    ) -> None:
        model, processor, tokenizer, revision, code = loaded
        config = model.config
        family = family_of(config)
        writer = Writer(processor, tokenizer, family)
        replies = _writes_replies(config)
        image_id = image_token_id(config)
        layout = Layout(
            processor,
            tokenizer,
            family,
            placeholder=writer.placeholder,
            image_id=image_id,
            replies=replies,
        )
        pad = tokenizer.pad_token_id
        context = getattr(text_config(config), "max_position_embeddings", None)
        if context is not None:
            context -= family.places_before
        identity = {
            "backend": "transformers",
            "model": Path(name).name if Path(name).is_dir() else name,
            "revision": revision,
            "dtype": str(model.dtype).removeprefix("torch."),
            "template": TEMPLATE,
            "form": writer.form,
            "processor": type(processor.image_processor).__name__,
            **({"remote_code": code} if code else {}),
        }
        super().__init__(
            Parts(
                identity=identity,
                family=family,
                writer=writer,
                layout=layout,
                passes=Forward(model, family, 0 if pad is None else pad),
                tokenizer=tokenizer,
                image_id=image_id,
                context=context,
                batch_tokens=batch_tokens,
                sharing=sharing,
                replies=replies,
            )
        )

    @classmethod
    def load(
        cls,
        name: str,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        trust_remote_code: bool = False,
        sharing: bool = True,
    ) -> LocalModel:
        loaded = load(
            name,
            revision=revision,
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        return cls(loaded, name, batch_tokens=batch_tokens, sharing=sharing)


def _writes_replies(config: Any) -> bool:
    text = text_config(config)
    return bool(getattr(config, "is_encoder_decoder", False) or text.is_encoder_decoder)
