"""The moments of a step at which a device may be fullest, and which of them it is.

A step's memory swings: activations pile up until the loss, whose logits come in several copies; then each layer's
backward pass gathers parameters, recomputes and makes gradients while activations go; the update has temporaries of
its own. Only the fullest moment has to fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.quantities import Number, added_up, anywhere, either, larger, plain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """What comes and goes, in bytes per device, at one moment of a step."""

    name: str
    gradients: Number
    activations: tuple[Number, ...]
    """Summands."""
    buffers: tuple[Number, ...]
    """Summands: gathered parameters and temporaries."""

    @property
    def terms(self) -> tuple[Number, ...]:
        """Summands of all of it."""
        return (self.gradients, *self.activations, *self.buffers)

    @property
    def total(self) -> Number:
        """All of it."""
        return added_up(self.terms)


def fullest_moment(moments: Sequence[Moment]) -> dict[str, Number]:
    """Return gradients, activations and buffers at the moment with the largest total, plan by plan."""
    parts = [
        {"gradients": m.gradients, "activations": added_up(m.activations), "buffers": added_up(m.buffers)}
        for m in moments
    ]
    best, most = parts[0], added_up(parts[0].values())
    for moment in parts[1:]:
        total = added_up(moment.values())
        fuller = total > most
        if not anywhere(fuller):
            continue
        most = larger(most, total)
        best = {name: plain(either(fuller, size, best[name])) for name, size in moment.items()}
    return best
