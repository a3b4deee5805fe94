"""Which Hugging Face repository a catalog model is, and which catalog model a repository is."""

import re
from functools import cache

from sightline import catalog

_REPOSITORY = re.compile(
    r"(?:(?:config\.json|model card|tensors) of |^)([\w.-]+/[\w.-]+)(?=$|[;,]| \()(?!, the same shapes)"
)
"""A repository in a source, other than one in another number format that has the same shapes."""


def repository_of(model: str) -> str:
    """Return the Hugging Face repository of a catalog model, from its source; empty where the catalog knows none.

    Models of papers and of other frameworks' examples have none.
    """
    if model not in catalog.names("models"):
        return ""
    found = _REPOSITORY.search(str(catalog.entry("models", model).get("source", "")))
    return found[1] if found else ""


def model_of(written: str) -> str:
    """Return the catalog's name of a repository or of a path that ends in a repository's name; empty for none.

    Variants of the same shapes count as the model: of ``meta-llama/Llama-3.1-8B-Instruct`` it is ``llama-3.1-8b``.
    """
    asked = written.rstrip("/")
    for name in (asked, asked.rpartition("/")[2]):
        if (found := catalog.name_of("models", name)) in catalog.names("models"):
            return found
    return _by_repository().get(asked.lower(), "")


@cache
def _by_repository() -> dict[str, str]:
    """Catalog models by their repositories in lower case; of several names of one the first."""
    named = {name: repository_of(name) for name in reversed(catalog.names("models"))}
    return {repository.lower(): name for name, repository in named.items() if repository}
