"""TRL's trainers, with our settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError, require
from heldout.image import ImageError, to_rgb
from heldout.model import LoadedModel, load
from heldout.train._training_set import ChatForm, TrainingItem, messages, require_template
from heldout.train._watching import StepJournal, VerifiableReward
from heldout.train.settings import Precision, Recipe, TrainSettings

# Training rows as TRL reads them: a data set of row numbers, whose images are opened when needed.


_OPEN = 64  # rows whose images stay decoded


def supervised_rows(items: Sequence[TrainingItem], form: ChatForm) -> Any:
    """Prompt and completion as text, so that the loss is on the reply and its end, and nowhere else."""

    def row(item: TrainingItem) -> dict[str, Any]:
        return {"prompt": form.prompt(item), "completion": form.completion(item)}

    return _rows(items, row)


def rewarded_rows(items: Sequence[TrainingItem], prompt: str = "") -> Any:
    """Prompts as turns, which the trainer renders itself, and the row's number for the reward."""

    def row(item: TrainingItem) -> dict[str, Any]:
        return {"prompt": messages(item, prompt), "item": item}

    return _rows(items, row)


def _rows(items: Sequence[TrainingItem], make: Callable[[TrainingItem], dict[str, Any]]) -> Any:
    from datasets import Dataset

    # The replies to one prompt are one row, many times over: its images are decoded once.
    opened = functools.lru_cache(_OPEN)(lambda number: tuple(pictures(items[number])))

    def look_up(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        rows = [{**make(items[number]), "images": list(opened(number))} for number in batch["row"]]
        return {name: [record[name] for record in rows] for name in rows[0]}

    return Dataset.from_dict({"row": list(range(len(items)))}).with_transform(look_up)


def pictures(item: TrainingItem) -> list[Any]:
    """The images of a row in RGB."""
    try:
        return [to_rgb(ref.open()) for ref in item.images]
    except ImageError as error:
        raise InputError(
            f"training row {item.id}: an image that could be read before cannot be read now "
            f"({error.reason}: {error.detail})"
        ) from error


CHECKPOINTS = "checkpoints"
_WHY = "heldout train"
_VISION = ("vision_tower", "vision_model", "visual", "multi_modal_projector.vision")
# Layers of the language model that LoRA adapts: linear ones outside the vision tower and the head.
_ADAPTED = (
    r"^(?!.*(?:vision_tower|vision_model|visual|lm_head)).*\."
    r"(?:q_proj|k_proj|v_proj|o_proj|qkv_proj|gate_proj|up_proj|down_proj|fc1|fc2)$"
)


@dataclass(frozen=True)
class UpdatePace:
    """How much goes through the model at a time; halved when memory runs out."""

    micro: int  # sequences of one backward pass
    replies: int  # replies written at a time

    @classmethod
    def of(cls, settings: TrainSettings) -> UpdatePace:
        micro = _divisor(settings.update_rows, settings.micro_batch)
        whole = settings.batch * settings.group
        return cls(micro, min(settings.reply_batch, whole))

    def halved(self, *, writing: bool) -> UpdatePace | None:
        """None where it cannot be halved any more. ``writing``: memory ran out in writing replies."""
        if writing:
            return UpdatePace(self.micro, self.replies // 2) if self.replies > 1 else None
        smaller = _divisor(self.micro, self.micro // 2) if self.micro > 1 else 0
        return UpdatePace(smaller, self.replies) if smaller else None


def _divisor(whole: int, most: int) -> int:
    """The largest divisor that is not above ``most``: the batch stays what it was."""
    return next(size for size in range(min(most, whole), 0, -1) if whole % size == 0)


def require_packages() -> None:
    for module in ("torch", "transformers", "trl", "accelerate", "datasets", "peft"):
        require(module, "train", _WHY)


def check_checkpoint(settings: TrainSettings) -> None:
    """Processor and chat template alone, without the weights: InputError where TRL cannot use them."""
    from transformers import AutoProcessor

    folder = Path(settings.model).expanduser()
    try:
        processor = AutoProcessor.from_pretrained(
            str(folder) if folder.is_dir() else settings.model,
            revision=settings.revision,
            trust_remote_code=settings.trust_remote_code,
        )
    except Exception:  # opening all of it succeeds, or raises the error
        processor = open_checkpoint(settings).processor
    _require_processor(processor, settings.model)
    require_template(processor, settings.model)


def _require_processor(processor: Any, name: str) -> None:
    from transformers import ProcessorMixin

    if not isinstance(processor, ProcessorMixin):
        raise InputError(
            f"model {name}: it has a tokenizer and no processor of transformers, so TRL cannot "
            f"train it. Use the same model in transformers' own layout"
        )


def open_checkpoint(settings: TrainSettings) -> LoadedModel:
    """Weights in float32, which small learning rates need; under LoRA those of the model in bfloat16."""
    import torch

    half = settings.lora is not None and settings.precision is Precision.BFLOAT16
    on_gpu = settings.device != "cpu" and torch.cuda.is_available()
    loaded = load(
        settings.model,
        revision=settings.revision,
        dtype="bfloat16" if half and on_gpu else "float32",
        device=settings.device,
        trust_remote_code=settings.trust_remote_code,
    )
    _require_processor(loaded.processor, settings.model)
    if loaded.tokenizer.pad_token_id is None:
        loaded.tokenizer.pad_token = loaded.tokenizer.eos_token
    if settings.freeze_vision:
        for name, weight in loaded.model.named_parameters():
            if any(part in name for part in _VISION):
                weight.requires_grad_(False)
    return loaded


@dataclass
class Training:
    """What a trainer is made of; made anew where memory ran out."""

    settings: TrainSettings
    items: Sequence[TrainingItem]
    folder: Path
    replies: StepJournal
    callback: Any

    def trainer(self, loaded: LoadedModel, pace: UpdatePace) -> Any:
        from transformers import PrinterCallback

        settings = self.settings
        form = ChatForm(
            loaded.processor, loaded.tokenizer, loaded.model, settings.model, settings.prompt
        )
        supervised = settings.recipe is Recipe.SFT
        trainer = (self._supervised if supervised else self._rewarded)(loaded, pace, form)
        trainer.remove_callback(PrinterCallback)  # it prints to standard output
        return trainer

    def _supervised(self, loaded: LoadedModel, pace: UpdatePace, form: ChatForm) -> Any:
        from trl import SFTConfig, SFTTrainer

        args = SFTConfig(**self._common(loaded, pace), max_length=None, completion_only_loss=True)
        return SFTTrainer(
            model=loaded.model,
            args=_on_one_device(args),
            train_dataset=supervised_rows(self.items, form),
            processing_class=loaded.processor,
            peft_config=self._lora(),
            callbacks=[self.callback],
        )

    def _rewarded(self, loaded: LoadedModel, pace: UpdatePace, form: ChatForm) -> Any:
        from trl import GRPOConfig

        settings = self.settings
        args = GRPOConfig(
            **self._common(loaded, pace),
            num_generations=settings.group,
            generation_batch_size=settings.batch * settings.group,
            max_completion_length=settings.reply_tokens,
            temperature=settings.temperature,
            beta=settings.kl,
            entropy_coef=settings.entropy,
            loss_type="dapo",  # every token of an update counts the same, as verl's token-mean
            scale_rewards="group",
            # The reference is opened from the checkpoint, in the same precision.
            model_init_kwargs={
                "dtype": str(loaded.model.dtype).removeprefix("torch."),
                "revision": settings.revision,
            },
        )
        trainer = _grpo_in_parts()(
            model=loaded.model,
            reward_funcs=[VerifiableReward(loaded.tokenizer, form, self.replies, settings.group)],
            args=_on_one_device(args),
            train_dataset=rewarded_rows(self.items, settings.prompt),
            processing_class=loaded.processor,
            peft_config=self._lora(),
            callbacks=[self.callback],
        )
        trainer.replies_at_a_time = pace.replies
        return trainer

    def _common(self, loaded: LoadedModel, pace: UpdatePace) -> dict[str, Any]:
        import torch

        settings = self.settings
        on_gpu = loaded.model.device.type == "cuda"
        half = (
            settings.precision is Precision.BFLOAT16 and on_gpu and torch.cuda.is_bf16_supported()
        )
        return {
            "output_dir": str(self.folder / CHECKPOINTS),
            "per_device_train_batch_size": pace.micro,
            "gradient_accumulation_steps": settings.update_rows // pace.micro,
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": _schedule(settings),
            "warmup_steps": settings.warmup,  # below 1: a share
            "num_train_epochs": settings.epochs,
            "max_steps": settings.max_steps or -1,
            "weight_decay": settings.weight_decay,
            "adam_beta1": settings.betas[0],
            "adam_beta2": settings.betas[1],
            "max_grad_norm": settings.max_grad_norm,
            "bf16": half,
            "use_cpu": not on_gpu,
            "gradient_checkpointing": settings.gradient_checkpointing,
            "seed": settings.seed,
            "data_seed": settings.seed,
            "logging_steps": 1,
            "logging_nan_inf_filter": False,  # a loss that is NaN has to be noticed
            "save_strategy": "steps",
            "save_steps": save_steps(settings),
            "save_total_limit": 2,
            "report_to": "none",
            "disable_tqdm": True,
            "remove_unused_columns": False,
            "dataloader_num_workers": 0,
            # rows are lists of objects until the trainer reads them
            "dataloader_pin_memory": False,
        }

    def _lora(self) -> Any:
        if self.settings.lora is None:
            return None
        from peft import LoraConfig

        rank = self.settings.lora
        return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_ADAPTED, lora_dropout=0.0)


def _schedule(settings: TrainSettings) -> str:
    warms_up = settings.schedule == "constant" and settings.warmup > 0
    return "constant_with_warmup" if warms_up else settings.schedule


def _on_one_device(args: Any) -> Any:
    """Further GPUs of the machine stay free: TRL refuses to spread one process over several."""
    if args.device.type == "cuda":
        args._n_gpu = 1
    return args


def save_steps(settings: TrainSettings) -> int:
    """Checkpoints lie between two batches: a run that goes on must not need half of one's replies."""
    whole = settings.updates_per_batch
    return -(-settings.save_every // whole) * whole


def _grpo_in_parts() -> Any:
    """GRPOTrainer that writes the replies of a batch in parts: all at once, they would set the memory."""
    from trl import GRPOTrainer

    class PartedGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
        replies_at_a_time = 128
        writing = False  # memory ran out while replies were written, or while the model learnt

        def _tokenize_prompts(self, prompts: list[Any]) -> Any:
            self._asked = prompts
            return super()._tokenize_prompts(prompts)

        def _generate_single_turn(
            self,
            prompt_ids: Any,
            images: Any,
            fields: Any,
            num_generations: int,
            *more: Any,
            **named: Any,
        ) -> Any:
            self.writing = True
            size, prompts = self.replies_at_a_time, self._asked
            if len(prompts) <= size:
                whole = super()._generate_single_turn(
                    prompt_ids, images, fields, num_generations, *more, **named
                )
                self.writing = False
                return whole
            written: list[Any] = []
            for start in range(0, len(prompts), size):
                part = super()._tokenize_prompts(prompts[start : start + size])
                replies, _ = super()._generate_single_turn(*part, num_generations, *more, **named)
                written += replies
            self.writing = False
            return written, None

    return PartedGRPOTrainer
