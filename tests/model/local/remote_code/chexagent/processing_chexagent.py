"""Tiny: the interface of CheXagentProcessor: all pictures of one question are one row of pixels."""

from transformers.processing_utils import ProcessorMixin


class CheXagentProcessor(ProcessorMixin):
    attributes = ("image_processor", "tokenizer")
    image_processor_class = "BlipImageProcessor"
    tokenizer_class = "AutoTokenizer"

    def __init__(self, image_processor, tokenizer):
        super().__init__(image_processor, tokenizer)
        self.current_processor = self.image_processor

    def __call__(self, images=None, text=None, add_special_tokens=True, return_tensors=None):
        words = self.tokenizer(
            text=text,
            add_special_tokens=add_special_tokens,
            return_tensors=return_tensors,
            return_token_type_ids=False,
        )
        if images is None:
            return words
        given = self.image_processor(images, return_tensors=return_tensors)
        given["pixel_values"] = given["pixel_values"].unsqueeze(0)
        given.update(words)
        return given
