"""Conversations that block numbers of prompts tell: what a trace such as Mooncake's says of shared prefixes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from sightline.loading.traces.rows import Columns

Chain = Sequence[int]
"""Numbers of the blocks of a prompt. Equal numbers are equal blocks behind equal ones, so that a number is a prefix."""


class Conversations:
    """Which requests go on with an earlier one, and which begin alike.

    A request whose prompt begins with all full blocks of an earlier one, and is at least as long as that one with its
    answer, is its next turn. Conversations that begin alike share one prefix: of those in their first prompt that by
    which the most is shared, in blocks times the share of conversations that find it computed. What is shared besides
    - by some of these only, or between two continuations of one conversation - is computed again.
    """

    def __init__(self, block_tokens: int, begun_with: Mapping[int, int] = MappingProxyType({})) -> None:
        """Know of no request; ``begun_with`` counts the conversations that begin with each prefix."""
        self._block_tokens = block_tokens
        self._begun_with = begun_with
        self._open: dict[int, tuple[int, int]] = {}
        """By the last full block of a conversation: its number, and the tokens said in it."""
        self._prefixes: list[tuple[int, int]] = []
        """Of each conversation: the prefix that it shares, and its blocks."""
        self.begins: Counter[int] = Counter()
        """How many conversations begin with each prefix."""

    def shared(self, columns: Columns) -> Columns:
        """Return columns with prefixes and sessions in place of blocks."""
        prompts, outputs = columns["prompt_tokens"].tolist(), columns["output_tokens"].tolist()
        rows = zip(columns["blocks"], prompts, outputs, strict=True)
        sessions = [self._session(*row) for row in rows]
        prefixes = np.array([self._prefixes[session] for session in sessions], np.int64)
        rest = {name: values for name, values in columns.items() if name != "blocks"}
        return {
            **rest,
            "prefix_id": prefixes[:, 0],
            "prefix_tokens": np.minimum(prefixes[:, 1] * self._block_tokens, columns["prompt_tokens"]),
            "session_id": np.array(sessions, np.int64),
        }

    def _session(self, chain: Chain, prompt: int, output: int) -> int:
        """The conversation of a request, which it may begin."""
        full = min(prompt // self._block_tokens, len(chain))
        last = next((block for block in reversed(chain[1:full]) if block in self._open), None)
        if last is not None and prompt >= self._open[last][1]:
            session, _ = self._open.pop(last)
        else:
            session = len(self._prefixes)
            self.begins.update(chain)
            self._prefixes.append(self._prefix(chain))
        if full > 1:
            self._open[chain[full - 1]] = session, prompt + output
        return session

    def _prefix(self, chain: Chain) -> tuple[int, int]:
        """The prefix of a chain that conversations share best, and its blocks; none: that of no other."""
        gains = [(depth + 1) * (1.0 - 1.0 / self._begun_with.get(block, 1)) for depth, block in enumerate(chain)]
        best = max(range(len(chain)), key=gains.__getitem__, default=None)
        return (-1, 0) if best is None or not gains[best] else (chain[best], best + 1)
