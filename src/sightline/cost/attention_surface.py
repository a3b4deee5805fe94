"""A residual surface over those sizes of an attention that an engine's choice of kernels depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.cost.residual_surface import Array, ResidualSurface
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionSurface:
    """A residual surface that knows its axes by name."""

    over: tuple[str, ...]
    """Sizes along the axes: tiles (sequences times heads of keys and values), heads (sequences times heads), context,
    queries, kv_heads, group (queries that share keys and values), group_heads (heads that do), head_dim, kv_bytes (of an
    element), key_bytes (of a head's key)."""
    surface: ResidualSurface

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "AttentionSurface":
        """The surface out of a calibration entry."""
        return cls(over=tuple(mapping["over"]), surface=ResidualSurface.from_mapping(mapping))

    def to_mapping(self) -> dict[str, Any]:
        """What ``from_mapping`` reads."""
        return {"over": list(self.over), **self.surface.to_mapping()}

    def factor(self, sizes: Mapping[str, Number]) -> Array:
        """Return what a predicted time is multiplied by, for the sizes by name; they broadcast."""
        return self.surface.factor(*(sizes[name] for name in self.over))
