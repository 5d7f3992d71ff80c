"""Tiny: the interface of InternVLChatModel, with what makes it hard to load.

Like the original it calls no ``post_init``, takes ``.item()`` of a ``linspace`` while it is built, wants
``image_flags``, and writes its prompts with a conversation template of its own.
"""

import torch
from torch import nn
from transformers import Qwen2ForCausalLM
from transformers.modeling_outputs import BaseModelOutputWithPooling, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from .configuration_internvl_chat import InternVisionConfig, InternVLChatConfig
from .conversation import get_conv_template


class InternVisionModel(PreTrainedModel):
    main_input_name = "pixel_values"
    config_class = InternVisionConfig

    def __init__(self, config):
        super().__init__(config)
        size, patch, width = config.image_size, config.patch_size, config.hidden_size
        self.class_embedding = nn.Parameter(torch.randn(1, 1, width))
        self.patch_embedding = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.position_embedding = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width))
        rates = torch.linspace(0, config.drop_path_rate, config.num_hidden_layers)
        self.rates = [rate.item() for rate in rates]
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in self.rates])

    def forward(self, pixel_values=None, output_hidden_states=None, return_dict=None):
        patches = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(patches), -1, -1)
        hidden = torch.cat([first, patches], 1) + self.position_embedding
        states = [hidden]
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden + hidden.mean(1, keepdim=True)))
            states.append(hidden)
        return BaseModelOutputWithPooling(
            last_hidden_state=hidden,
            pooler_output=hidden[:, 0],
            hidden_states=tuple(states) if output_hidden_states else None,
        )


class InternVLChatModel(PreTrainedModel):
    config_class = InternVLChatConfig
    main_input_name = "pixel_values"
    base_model_prefix = "language_model"

    def __init__(self, config, vision_model=None, language_model=None):
        super().__init__(config)
        size = config.force_image_size or config.vision_config.image_size
        self.select_layer = config.select_layer
        self.template = config.template
        self.downsample_ratio = config.downsample_ratio
        grid = (size // config.vision_config.patch_size) ** 2
        self.num_image_token = int(grid * config.downsample_ratio**2)
        self.vision_model = vision_model or InternVisionModel(config.vision_config)
        self.language_model = language_model or Qwen2ForCausalLM(config.llm_config)
        wide = config.vision_config.hidden_size * int(1 / config.downsample_ratio) ** 2
        self.mlp1 = nn.Sequential(
            nn.LayerNorm(wide), nn.Linear(wide, config.llm_config.hidden_size)
        )
        self.img_context_token_id = None
        self.conv_template = get_conv_template(self.template)
        self.system_message = self.conv_template.system_message

    def forward(
        self,
        pixel_values,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        image_flags=None,
        past_key_values=None,
        labels=None,
        use_cache=None,
        output_attentions=None,
        output_hidden_states=None,
        return_dict=None,
    ):
        image_flags = image_flags.squeeze(-1)
        embedded = self._embedded(input_ids, self.extract_feature(pixel_values)[image_flags == 1])
        outputs = self.language_model(
            inputs_embeds=embedded,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        return CausalLMOutputWithPast(
            logits=outputs.logits, past_key_values=outputs.past_key_values
        )

    def _embedded(self, input_ids, shown):
        embedded = self.language_model.get_input_embeddings()(input_ids).clone()
        embedded[input_ids == self.img_context_token_id] = shown.reshape(-1, embedded.shape[-1])
        return embedded

    def pixel_shuffle(self, x, scale_factor=0.5):
        n, w, h, c = x.size()
        x = x.view(n, w, int(h * scale_factor), int(c / scale_factor)).permute(0, 2, 1, 3)
        x = x.contiguous().view(
            n, int(h * scale_factor), int(w * scale_factor), int(c / (scale_factor**2))
        )
        return x.permute(0, 2, 1, 3).contiguous()

    def extract_feature(self, pixel_values):
        if self.select_layer == -1:
            seen = self.vision_model(pixel_values=pixel_values).last_hidden_state
        else:
            seen = self.vision_model(pixel_values=pixel_values, output_hidden_states=True)
            seen = seen.hidden_states[self.select_layer]
        seen = seen[:, 1:, :]
        side = int(seen.shape[1] ** 0.5)
        seen = seen.reshape(seen.shape[0], side, side, -1)
        seen = self.pixel_shuffle(seen, scale_factor=self.downsample_ratio)
        return self.mlp1(seen.reshape(seen.shape[0], -1, seen.shape[-1]))

    def chat(self, tokenizer, pixel_values, question, generation_config, num_patches_list=None):
        if pixel_values is not None and "<image>" not in question:
            question = "<image>\n" + question
        if num_patches_list is None:
            num_patches_list = [len(pixel_values)] if pixel_values is not None else []
        self.img_context_token_id = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
        template = get_conv_template(self.template)
        template.system_message = self.system_message
        template.append_message(template.roles[0], question)
        template.append_message(template.roles[1], None)
        query = template.get_prompt()
        for number in num_patches_list:
            shown = "<img>" + "<IMG_CONTEXT>" * self.num_image_token * number + "</img>"
            query = query.replace("<image>", shown, 1)
        inputs = tokenizer(query, return_tensors="pt").to(self.device)
        stop = tokenizer.convert_tokens_to_ids(template.sep.strip())
        made = self.generate(
            pixel_values=pixel_values,
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            **generation_config,
            eos_token_id=stop,
        )
        reply = tokenizer.batch_decode(made, skip_special_tokens=True)[0]
        return reply.split(template.sep.strip())[0].strip()

    @torch.no_grad()
    def generate(self, pixel_values=None, input_ids=None, attention_mask=None, **settings):
        if pixel_values is not None:
            embedded = self._embedded(input_ids, self.extract_feature(pixel_values))
        else:
            embedded = self.language_model.get_input_embeddings()(input_ids)
        return self.language_model.generate(
            inputs_embeds=embedded, attention_mask=attention_mask, use_cache=True, **settings
        )

    def get_input_embeddings(self):
        return self.language_model.get_input_embeddings()
