"""What the tests of measurement share: a model, and looking for processes that were left behind."""

from pathlib import Path

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "vocab_size": 320,
}


def alive(mark):
    """The processes whose command line holds ``mark``, zombies left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line, state = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
            except OSError:
                continue
            if mark.encode() in line and state.rpartition(")")[2].split()[0] != "Z":
                found.append(int(folder.name))
    return found
