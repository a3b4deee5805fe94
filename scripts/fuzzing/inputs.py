"""One input of a reader, and the folder that it is kept in when it shows a defect."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ABOUT = "input.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What is asked, with the files that it names."""

    verb: str
    """A function of `fuzzing.verbs`: command, request, quantity, ..."""
    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)

    def save(self, folder: Path, problem: str) -> None:
        """Write the files, what is asked about them, and the problem into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        about = {"verb": self.verb, "arguments": self.arguments, "files": list(self.files), "problem": problem}
        (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Input":
        """Return the input that a folder keeps."""
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        files = {name: (folder / name).read_bytes() for name in about["files"]}
        return cls(verb=about["verb"], arguments=tuple(about["arguments"]), files=files)
