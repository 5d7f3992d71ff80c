"""Tiny: a conversation with the interface of InternVL's, and its one separator style."""

import dataclasses


@dataclasses.dataclass
class Conversation:
    name: str
    system_template: str = "{system_message}"
    system_message: str = ""
    roles: tuple = ("USER", "ASSISTANT")
    messages: list = dataclasses.field(default_factory=list)
    sep: str = "\n"

    def append_message(self, role, message):
        self.messages.append([role, message])

    def get_prompt(self):
        text = self.system_template.format(system_message=self.system_message) + self.sep
        for role, message in self.messages:
            text += role + message + self.sep if message else role
        return text


def get_conv_template(name):
    if name != "internvl2_5":
        raise KeyError(name)
    return Conversation(
        name=name,
        system_template="<|im_start|>system\n{system_message}",
        system_message="This is the picture of the liver.",
        roles=("<|im_start|>user\n", "<|im_start|>assistant\n"),
        sep="<|im_end|>\n",
    )
