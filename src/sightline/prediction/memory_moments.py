"""The moments of a step at which a device may be fullest, and which of them it is.

A step's memory swings: activations pile up until the loss, whose logits come in several copies; then each layer's
backward pass gathers parameters, recomputes and makes gradients while activations go; the update has temporaries of
its own. Only the fullest moment has to fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.quantities import Number, added_up, either, plain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """What comes and goes, in bytes per device, at one moment of a step."""

    name: str
    gradients: Number
    activations: Number
    buffers: Number
    """Gathered parameters and temporaries."""

    def with_states(self, states: Number) -> Number:
        """All of it, beside ``states`` bytes that stay."""
        return added_up((states, self.gradients, self.activations, self.buffers))


def fullest_moment(moments: Sequence[Moment]) -> Moment:
    """Return the moment with the largest total, plan by plan; its name is that of single plans' only."""
    best, most = moments[0], moments[0].with_states(0.0)
    for moment in moments[1:]:
        total = moment.with_states(0.0)
        fuller = total > most
        if not np.any(fuller):
            continue
        most = np.maximum(most, total)
        best = Moment(
            name=moment.name,
            gradients=plain(either(fuller, moment.gradients, best.gradients)),
            activations=plain(either(fuller, moment.activations, best.activations)),
            buffers=plain(either(fuller, moment.buffers, best.buffers)),
        )
    return best
