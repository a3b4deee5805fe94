"""What one iteration of an engine works on: groups of sequences, each with new tokens and tokens in the cache.

Each sequence keeps keys and values, latents or recurrent states. A prefill is one group of prompts, a decode step one
of sequences with a token or a few each; a mixed batch has both.
"""

from dataclasses import dataclass

from sightline.quantities import Number, plain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceGroup:
    """Sequences of a data-parallel rank that are alike: ``count x (new tokens, context)``."""

    count: Number
    new_tokens: Number
    """Of each sequence: a prompt, a chunk of it, or what a step of decoding adds."""
    context_tokens: Number = 0.0
    """Tokens of each that are cached already."""
    decode: bool = False
    """Few new tokens: kernels split the context over the device instead of walking along it per block of queries."""
    logits: Number = 1.0
    """Tokens of each whose logits are wanted."""

    @property
    def tokens(self) -> Number:
        """New tokens of all sequences."""
        return self.count * self.new_tokens


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """The groups of one iteration; linear layers run over the tokens of all, attention group by group."""

    groups: tuple[SequenceGroup, ...]

    @classmethod
    def of(cls, *groups: SequenceGroup) -> "Batch":
        """Return the batch of ``groups``."""
        return cls(groups=groups)

    @property
    def tokens(self) -> Number:
        """New tokens of all groups."""
        first, *others = (group.tokens for group in self.groups)
        return sum(others, first)

    @property
    def logits(self) -> Number:
        """Tokens of all groups whose logits are wanted."""
        first, *others = (group.count * group.logits for group in self.groups)
        return sum(others, first)

    @property
    def decode(self) -> bool:
        """Whether all groups decode, so that engines take kernels for few tokens, as a captured graph has them."""
        return all(group.decode for group in self.groups)


def prompts(count: Number, new_tokens: Number, context_tokens: Number = 0.0) -> SequenceGroup:
    """Return prompts, or chunks of them behind what is cached; each wants the logits of its last token."""
    return SequenceGroup(count=plain(count), new_tokens=plain(new_tokens), context_tokens=plain(context_tokens))


def decoding(count: Number, context_tokens: Number, new_tokens: Number = 1.0) -> SequenceGroup:
    """Return sequences that get a token each, or verify drafted ones; the logits of all new tokens are wanted."""
    new = plain(new_tokens)
    return SequenceGroup(
        count=plain(count), new_tokens=new, context_tokens=plain(context_tokens), decode=True, logits=new
    )
