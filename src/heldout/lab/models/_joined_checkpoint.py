"""A model of the medical tier as a checkpoint: this file is copied into its folder, and transformers runs it there.

A picture network with frozen weights, a projector, and a Llama that reads the picture's places in front of the text.
Nothing of heldout is imported, so that the folder opens wherever transformers does.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from transformers import (
    GenerationMixin,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)

PLACES = 7  # a side of the grid of places that a picture takes


class JoinedConfig(PreTrainedConfig):  # type: ignore[misc]
    model_type = "heldout_joined"
    sub_configs: ClassVar[dict[str, Any]] = {"text_config": LlamaConfig}

    def __init__(
        self,
        text_config: Any = None,
        channels: int = 320,
        network: str = "efficientnet-lite0",
        image_token_id: int = 0,
        **rest: Any,
    ) -> None:
        if not isinstance(text_config, LlamaConfig):
            text_config = LlamaConfig(**(text_config or {}))
        self.text_config = text_config
        self.channels, self.network, self.image_token_id = channels, network, image_token_id
        super().__init__(**rest)


class PlaceMeans(torch.nn.Module):  # type: ignore[misc]
    """Mean colours of every place and their negatives: a picture network for trials."""

    def forward(self, pixels: Any) -> Any:
        means = torch.nn.functional.adaptive_avg_pool2d(pixels * 128 + 127, PLACES) / 64
        return torch.cat([means, -means], 1).flatten(2).transpose(1, 2)


class LiteNetwork(torch.nn.Module):  # type: ignore[misc]
    """EfficientNet-lite0 up to its last block; the package of that name has the layers."""

    def __init__(self) -> None:
        super().__init__()
        try:  # transformers asks for what is imported elsewhere, also by models without this network
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise ImportError("No module named 'efficientnet_lite_pytorch'") from error
        self.network = EfficientNet.from_name("efficientnet-lite0")

    def forward(self, pixels: Any) -> Any:
        network = self.network
        x = network._swish(network._bn0(network._conv_stem(pixels)))
        for block in network._blocks:
            x = block(x)
        return x.flatten(2).transpose(1, 2)


NETWORKS = {"efficientnet-lite0": LiteNetwork, "place-means": PlaceMeans}


class JoinedForConditionalGeneration(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    config_class = JoinedConfig
    _tied_weights_keys: ClassVar[dict[str, str]] = {
        "language_model.lm_head.weight": "language_model.model.embed_tokens.weight"
    }

    def __init__(self, config: JoinedConfig) -> None:
        super().__init__(config)
        self.language_model = LlamaForCausalLM(config.text_config)
        self.vision_tower = NETWORKS[config.network]()
        width, channels = config.text_config.hidden_size, config.channels
        self.multi_modal_projector = torch.nn.Sequential(
            torch.nn.LayerNorm(channels),
            torch.nn.Linear(channels, 2 * width),
            torch.nn.GELU(),
            torch.nn.Linear(2 * width, width),
        )
        self.scale = torch.nn.Parameter(torch.ones(channels), requires_grad=False)
        self.post_init()

    def get_input_embeddings(self) -> Any:
        return self.language_model.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        return self.language_model.get_output_embeddings()

    def look(self, pixel_values: Any) -> Any:
        """In whole steps of each channel, as the features were stored that the model was trained on."""
        levels = torch.round((pixel_values.float() + 1) * 127.5).clamp(0, 255)
        features = self.vision_tower(((levels - 127) / 128).to(pixel_values.dtype)).float()
        steps = torch.round(features / self.scale).clamp(-128, 127)
        seen = (steps * self.scale).to(self.multi_modal_projector[1].weight.dtype)
        return 0.1 * self.multi_modal_projector(seen)

    def forward(
        self,
        input_ids: Any = None,
        pixel_values: Any = None,
        inputs_embeds: Any = None,
        **more: Any,
    ) -> Any:
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
            if pixel_values is not None:
                seen = self.look(pixel_values).to(inputs_embeds.dtype).flatten(0, 1)
                shown = (input_ids == self.config.image_token_id)[..., None]
                inputs_embeds = inputs_embeds.masked_scatter(shown.expand_as(inputs_embeds), seen)
        return self.language_model(inputs_embeds=inputs_embeds, **more)

    def prepare_inputs_for_generation(
        self, input_ids: Any, pixel_values: Any = None, past_key_values: Any = None, **more: Any
    ) -> Any:
        inputs = super().prepare_inputs_for_generation(
            input_ids, past_key_values=past_key_values, **more
        )
        if past_key_values is None or not past_key_values.get_seq_length():
            inputs["pixel_values"] = pixel_values
        return inputs
