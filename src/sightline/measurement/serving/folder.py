"""A model's folder that an engine can serve: random weights, and a tokenizer whose tokens are words."""

import json
from pathlib import Path
from typing import Any

from sightline.measurement.models.build import build_plain_model
from sightline.scenario import Model

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_model(model: Model, dtype: str, folder: Path) -> None:
    """Write weights, configuration and tokenizer of a model; nothing ends its answers before their asked length.

    Raises:
        UnsupportedCaseError: No class of transformers has such layers.
    """
    built: Any = build_plain_model(model, dtype=dtype)
    for settings in (built.config, built.generation_config):
        settings.bos_token_id = settings.eos_token_id = settings.pad_token_id = None
    built.config.use_cache = True
    built.save_pretrained(folder)
    _write_tokenizer(int(model.vocab_size), folder)


def _write_tokenizer(size: int, folder: Path) -> None:
    """Write a tokenizer of words: text of n words is n tokens, and a streamed token is never held back."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = {f"w{number}": number for number in range(size)}
    tokenizer: Any = Tokenizer(models.WordLevel(names, unk_token="w0"))  # noqa: S106 - no password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "unk_token": "w0",
        "pad_token": "w0",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
