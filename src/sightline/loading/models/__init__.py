"""``model``: a name of the catalog, a ``config.json`` of any family's spelling, or a mapping, into a `Model`."""

from sightline.loading.models.config import ReadModel, read_model, resolve_model

__all__ = ["ReadModel", "read_model", "resolve_model"]
