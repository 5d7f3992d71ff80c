"""Tiny: the fields of CheXagentConfig that its model reads."""

from transformers.configuration_utils import PretrainedConfig
from transformers.models.auto import CONFIG_MAPPING


class CheXagentVisionConfig(PretrainedConfig):
    model_type = "chexagent_vision_model"

    def __init__(self, hidden_size=16, image_size=28, patch_size=14, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.image_size = image_size
        self.patch_size = patch_size


class CheXagentQFormerConfig(PretrainedConfig):
    model_type = "chexagent_qformer"

    def __init__(self, hidden_size=16, num_hidden_layers=2, encoder_hidden_size=16, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.encoder_hidden_size = encoder_hidden_size


class CheXagentConfig(PretrainedConfig):
    model_type = "chexagent"

    def __init__(
        self,
        vision_config=None,
        qformer_config=None,
        text_config=None,
        num_query_tokens=128,
        num_max_images=2,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vision_config = CheXagentVisionConfig(**(vision_config or {}))
        self.qformer_config = CheXagentQFormerConfig(**(qformer_config or {}))
        text_config = text_config or {}
        self.text_config = CONFIG_MAPPING[text_config.get("model_type", "mistral")](**text_config)
        self.tie_word_embeddings = self.text_config.tie_word_embeddings
        self.is_encoder_decoder = self.text_config.is_encoder_decoder
        self.num_query_tokens = num_query_tokens
        self.qformer_config.encoder_hidden_size = self.vision_config.hidden_size
        self.num_max_images = num_max_images
