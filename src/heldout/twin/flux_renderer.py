"""FLUX.1-dev with a Canny ControlNet: draws the caption along the original's edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.twin.renderers import FluxSettings, RenderError, RenderTask, drawing_size

_WHY = "drawing twins with FLUX"


class FluxRenderer:
    """One picture at a time; the same task and settings give the same picture on the same device."""

    name = "flux"

    def __init__(self, pipeline: Any, settings: FluxSettings) -> None:
        self._pipeline = pipeline
        self._chosen = settings
        self._negative: dict[str, Any] | None = None
        self._drawn = 0

    @classmethod
    def load(cls, settings: FluxSettings | None = None) -> FluxRenderer:
        """Weights from the hub's cache, the hub or a folder; an InputError if there are none."""
        for module in ("torch", "diffusers", "transformers", "sentencepiece"):
            require(module, "diffusion", _WHY)
        settings = settings or FluxSettings()
        if settings.offload != "none":
            require("accelerate", "diffusion", "keeping FLUX in the main memory")
        import torch
        from diffusers import FluxControlNetModel, FluxControlNetPipeline

        device = settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = _dtype(torch, settings.dtype, device)
        controlnet = _load(
            FluxControlNetModel,
            settings.controlnet,
            settings.controlnet_revision,
            torch_dtype=dtype,
        )
        pipeline = _load(
            FluxControlNetPipeline,
            settings.model,
            settings.revision,
            controlnet=controlnet,
            torch_dtype=dtype,
        )
        pipeline.set_progress_bar_config(disable=True)
        if settings.offload == "model":
            pipeline.enable_model_cpu_offload(device=device)
        elif settings.offload == "sequential":
            pipeline.enable_sequential_cpu_offload(device=device)
        else:
            pipeline.to(device)
        return cls(pipeline, settings)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings include the device: another device or number type rounds differently."""
        import diffusers
        import torch

        return {
            "renderer": self.name,
            **asdict(self._chosen),
            "dtype": str(self._pipeline.transformer.dtype).removeprefix("torch."),
            "device": self._pipeline._execution_device.type,
            "diffusers": diffusers.__version__,
            "torch": torch.__version__,
        }

    def render(self, task: RenderTask) -> Image.Image:
        if not task.caption.strip():
            raise RenderError("no caption", "FLUX draws what a caption says")
        tokens = len(self._pipeline.tokenizer_2(task.caption, truncation=False).input_ids)
        if tokens > self._chosen.caption_tokens:
            raise RenderError(
                "caption too long", f"{tokens} tokens, FLUX reads {self._chosen.caption_tokens}"
            )
        width, height = drawing_size(
            *task.original.size, 2 * self._pipeline.vae_scale_factor, self._chosen.most_pixels
        )
        edges = task.edges.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
        drawn = self._fitting(task, {"control_image": edges, "width": width, "height": height})
        if not np.isfinite(drawn).all():
            raise RenderError("not a picture", "FLUX drew values that are no numbers; try float32")
        picture = Image.fromarray((drawn * 255).round().astype(np.uint8))
        if picture.size != task.original.size:
            picture = picture.resize(task.original.size, Image.Resampling.LANCZOS)
        return picture

    def _fitting(self, task: RenderTask, what: dict[str, Any]) -> Any:
        import torch

        try:
            drawn = self._draw(task, what)
        except torch.OutOfMemoryError as error:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            message = f"{what['width']} x {what['height']} pixels; set offload=model or most_pixels"
            if not self._drawn:  # other pictures will not fit either
                raise InputError(f"FLUX does not fit into the GPU's memory: {message}") from error
            raise RenderError("out of memory", message) from error
        self._drawn += 1
        return drawn

    def _draw(self, task: RenderTask, what: dict[str, Any]) -> Any:
        """The pipeline has true guidance for all steps or for none: so it is called twice, the second
        time with what the first steps left and with the rest of their schedule."""
        chosen, pipeline = self._chosen, self._pipeline
        schedule = np.linspace(1.0, 1 / chosen.steps, chosen.steps)
        record = {
            **what,
            **self._encoded(task.caption),
            "guidance_scale": chosen.guidance,
            "controlnet_conditioning_scale": chosen.control_weight,
        }
        guided = chosen.true_cfg > 1 and chosen.true_cfg_from < chosen.steps
        first = chosen.true_cfg_from if guided else chosen.steps
        latents = None
        if 0 < first < chosen.steps:

            def stop(running: Any, step: int, _: Any, tensors: dict[str, Any]) -> dict[str, Any]:
                running._interrupt = step + 1 >= first
                return tensors

            latents = pipeline(
                **record,
                num_inference_steps=chosen.steps,
                sigmas=schedule,
                generator=_generator(task.seed),
                output_type="latent",
                callback_on_step_end=stop,
            ).images
            schedule = schedule[first:]
        if guided:
            record |= {**self._without(), "true_cfg_scale": chosen.true_cfg}
        # The same seed again: some ControlNets draw a random sample of the edges' own encoding.
        drawn = pipeline(
            **record,
            num_inference_steps=len(schedule),
            sigmas=schedule,
            latents=latents,
            generator=_generator(task.seed),
            output_type="np",
        )
        return drawn.images[0]

    def _encoded(self, text: str) -> dict[str, Any]:
        import torch

        with torch.no_grad():
            words, pooled, _ = self._pipeline.encode_prompt(
                text, prompt_2=None, max_sequence_length=self._chosen.caption_tokens
            )
        return {"prompt_embeds": words, "pooled_prompt_embeds": pooled}

    def _without(self) -> dict[str, Any]:
        """The negative prompt, encoded once: it is the same for every picture."""
        if self._negative is None:
            encoded = self._encoded(self._chosen.negative_prompt)
            self._negative = {f"negative_{name}": tensor for name, tensor in encoded.items()}
        return self._negative


def _generator(seed: int) -> Any:
    import torch

    return torch.Generator("cpu").manual_seed(seed % 2**63)  # one noise for every device


def _dtype(torch: Any, name: str, device: str) -> Any:
    if name == "auto":
        return torch.bfloat16 if device.startswith("cuda") else torch.float32
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(f"FLUX: dtype is '{name}'; expected auto, bfloat16, float16 or float32")
    return dtype


def _load(kind: Any, name: str, revision: str | None, **settings: Any) -> Any:
    try:
        return kind.from_pretrained(name, revision=revision, **settings)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        message = " ".join(str(error).split())[:200]
        raise InputError(
            f"{name}: no weights for {kind.__name__} could be loaded ({message}). Give a folder in "
            f"diffusers' layout, or get them from the hub: accept the licence at "
            f"https://huggingface.co/{name} (FLUX.1-dev is gated), run 'hf auth login', then "
            f"'hf download {name}'"
        ) from error
