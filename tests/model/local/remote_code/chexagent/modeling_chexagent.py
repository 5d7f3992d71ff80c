"""Tiny: the interface of CheXagentForConditionalGeneration, with what makes it hard to load.

Like the original it puts the pictures before the text itself, without a token for them; its ``forward``
neither takes ``use_cache`` nor hands on what is kept; it imports and calls what only transformers 4 has.
"""

import torch
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.pytorch_utils import find_pruneable_heads_and_indices

from .configuration_chexagent import CheXagentConfig


class CheXagentPreTrainedModel(PreTrainedModel):
    config_class = CheXagentConfig
    base_model_prefix = "chexagent"


class CheXagentVisionModel(CheXagentPreTrainedModel):
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        patch = config.patch_size
        self.patches = nn.Conv2d(3, config.hidden_size, kernel_size=patch, stride=patch)
        self.layer = nn.Linear(config.hidden_size, config.hidden_size)
        self.post_init()

    def forward(self, pixel_values=None, return_dict=None):
        seen = self.patches(pixel_values).flatten(2).transpose(1, 2)
        return BaseModelOutput(last_hidden_state=torch.tanh(self.layer(seen)))


class CheXagentQFormerModel(CheXagentPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.encoder_hidden_size, config.hidden_size)
        self.post_init()

    def prune(self, heads):
        find_pruneable_heads_and_indices(heads, 1, 1, set())

    def forward(self, query_embeds, encoder_hidden_states, encoder_attention_mask):
        assert self.get_head_mask(None, self.config.num_hidden_layers) == [None, None]
        keys = self.key(encoder_hidden_states)
        scores = self.query(query_embeds) @ keys.transpose(1, 2)
        scores = scores.masked_fill(encoder_attention_mask[:, None] == 0, -1e9)
        return BaseModelOutput(last_hidden_state=query_embeds + scores.softmax(-1) @ keys)


class CheXagentForConditionalGeneration(CheXagentPreTrainedModel):
    main_input_name = "pixel_values"

    def __init__(self, config):
        super().__init__(config)
        self.vision_model = CheXagentVisionModel(config.vision_config)
        width = config.qformer_config.hidden_size
        self.query_tokens = nn.Parameter(torch.zeros(1, config.num_query_tokens, width))
        self.qformer = CheXagentQFormerModel(config.qformer_config)
        self.language_projection = nn.Linear(width, config.text_config.hidden_size)
        self.language_model = AutoModelForCausalLM.from_config(config.text_config)
        self.post_init()

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()

    def get_output_embeddings(self):
        return self.language_model.get_output_embeddings()

    def _shown(self, pixel_values):
        given = pixel_values.sum(dim=(2, 3, 4)) != 0  # rows of fewer pictures are filled with zeros
        seen = self.vision_model(pixel_values=pixel_values[given], return_dict=True)[0]
        embedded = seen.new_zeros((*given.shape, *seen.shape[1:]))
        embedded[given] = seen
        mask = torch.zeros(embedded.shape[:-1], dtype=torch.long, device=seen.device)
        mask[given] = 1
        queries = self.query_tokens.expand(len(embedded), -1, -1)
        found = self.qformer(queries, embedded.flatten(1, 2), mask.flatten(1, 2))
        return self.language_projection(found[0])

    def _inputs(self, pixel_values, input_ids, attention_mask):
        shown = self._shown(pixel_values)
        before = torch.ones(shown.shape[:-1], dtype=torch.long, device=shown.device)
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        embedded = self.language_model.get_input_embeddings()(input_ids)
        return torch.cat([shown, embedded], 1), torch.cat([before, attention_mask], 1)

    def forward(
        self,
        pixel_values,
        input_ids,
        attention_mask=None,
        output_attentions=None,
        output_hidden_states=None,
        labels=None,
        return_dict=None,
    ):
        embedded, mask = self._inputs(pixel_values, input_ids, attention_mask)
        outputs = self.language_model(inputs_embeds=embedded, attention_mask=mask)
        return CausalLMOutput(logits=outputs.logits)

    @torch.no_grad()
    def generate(self, pixel_values, input_ids=None, attention_mask=None, **settings):
        embedded, mask = self._inputs(pixel_values, input_ids, attention_mask)
        return self.language_model.generate(inputs_embeds=embedded, attention_mask=mask, **settings)
