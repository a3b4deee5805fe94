"""How tokens reach their experts and come back: sorting, the exchange between ranks, and the weighted sum.

Plainly a rank sends a copy of a token for each expert it chose. Deduplicating exchanges (DeepEP, HybridEP) send one to
each rank that holds any of them, and one to each node across the network, where it is handed on; copies are made, and
outputs added up, beside the experts.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sightline.program.address import Part
from sightline.program.operators import Collective, CollectiveKind, CollectiveRanks, Elementwise, Operator
from sightline.program.routing import distinct_ranks
from sightline.program.shapes import Shapes
from sightline.quantities import Number
from sightline.scenario import Experts

MODULE: Final = "experts"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """The tokens of one rank on their way, in bytes."""

    x: Shapes
    of: Experts
    own: Number
    """Tokens of the rank."""
    copies: Number
    """Rows that experts work on for them; one for each chosen expert, or the experts' capacity."""
    width: float

    @property
    def copied_bytes(self) -> Number:
        """All copies of the rank's tokens."""
        return self.x.element_bytes * self.copies * self.width

    @property
    def token_bytes(self) -> Number:
        """The rank's tokens once."""
        return self.x.element_bytes * self.own * self.width

    @property
    def sent_bytes(self) -> Number:
        """What a rank hands to the exchange."""
        if self.x.dispatch == "all-to-all":
            return self.copied_bytes
        share = self.of.chosen_groups / self.of.groups
        reached = distinct_ranks(self.of.count, self.of.per_token, self.x.e, group_share=share)
        return self.token_bytes * reached

    @property
    def many(self) -> Number:
        """1.0 where several ranks share the experts out."""
        return 1.0 * (np.asarray(self.x.e) > 1)

    def permutation(self, *, backward: bool) -> Elementwise:
        """Copies are sorted by expert; arriving plainly from several ranks they are sorted once more.

        A copy is written for every one that is read, but of a token's copies the first pass reads only one.
        """
        again = self.many * (self.x.dispatch == "all-to-all")
        return Elementwise(
            module=MODULE,
            part="permutation",
            direction="backward" if backward else "forward",
            traffic_bytes=self.copied_bytes + self.token_bytes + 2.0 * again * self.copied_bytes,
            kernels=1.0 + again,
            elements=self.copied_bytes / self.x.element_bytes,
        )

    def weighted_sum(self, *, backward: bool) -> Elementwise:
        """A token's outputs are brought together; backward spreads the gradient to all of them.

        Where weights are applied here and not in the activation, the outputs are kept for the weights' gradient.
        """
        again = self.many * (self.x.dispatch == "all-to-all")
        here = "expert-weights" not in self.x.framework.fusion.fused
        traffic = (1.0 + here * backward) * self.copied_bytes + self.token_bytes + 2.0 * again * self.copied_bytes
        return Elementwise(
            module=MODULE,
            part="weighted sum",
            direction="backward" if backward else "forward",
            traffic_bytes=traffic,
            kernels=1.0 + again,
            saved_bytes=self.copied_bytes * (here and not backward),
            elements=self.copied_bytes / self.x.element_bytes,
        )

    def travel(self, part: Part, *, gathers: bool) -> list[Operator]:
        """Copies travel to the ranks of their experts or back; ranks that share an expert get all its tokens."""
        kind: CollectiveKind = "all_gather" if gathers else "reduce_scatter"
        legs = [
            self._leg("all_to_all", self.sent_bytes, part, "expert", self.x.e),
            self._leg(kind, self.copied_bytes * self.x.u, part, "expert tensor", self.x.u),
        ]
        return [op for leg in (legs if gathers else reversed(legs)) for op in leg]

    def _leg(
        self, kind: CollectiveKind, size: Number, part: Part, ranks: CollectiveRanks, degree: Number
    ) -> list[Operator]:
        many = np.asarray(degree) > 1
        if not np.any(many):
            return []
        once = kind == "all_to_all" and self.x.dispatch == "deduplicated"
        share = self.of.chosen_groups / self.of.groups
        choices = (float(self.of.per_token), float(self.of.count), share) if once else None
        return [
            Collective(
                module=MODULE,
                part=part,
                kind=kind,
                buffer_bytes=size,
                ranks=ranks,
                beside="micro-batch",
                choices=choices,
                count=many * 1.0,
            )
        ]
