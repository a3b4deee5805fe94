"""The paged cache with its prefix cache: real blocks, found again by their content and all before it."""

from collections import OrderedDict
from dataclasses import dataclass, field

from simulation.reference.sequences import Block, Sequence

Content = tuple[tuple[object, ...], ...]
"""All tokens up to a block's end: equal in all replicas."""
ELSEWHERE = -1
"""The number of a block that is not on the device."""


@dataclass(frozen=True)
class Tier:
    """A memory behind the device's: blocks that it keeps, and seconds to load one, and of each load."""

    blocks: int
    block_s: float
    latency_s: float = 0.0
    shared: str = "rank"
    through: bool = False
    faster: bool = False
    prefetch: bool = False


@dataclass
class Memory:
    """A tier with what it has: contents, the least recently used one first."""

    tier: Tier
    contents: OrderedDict[Content, None] = field(default_factory=OrderedDict)
    free_s: float = 0.0
    """When its link has loaded what was asked of it so far."""

    def load(self, blocks: int, begin_s: float) -> float:
        """Load blocks behind what was asked before; return when that is done."""
        self.free_s = max(begin_s, self.free_s) + self.tier.latency_s + blocks * self.tier.block_s
        return self.free_s

    def keep(self, content: Content) -> Content | None:
        """Take what was evicted before this tier; return what it evicts in turn."""
        self.contents[content] = None
        self.contents.move_to_end(content)
        return self.contents.popitem(last=False)[0] if len(self.contents) > self.tier.blocks else None


class Pool:
    """All blocks of a replica. ``free`` are those that nobody holds, in the order in which they will be taken."""

    def __init__(self, blocks: int, block_tokens: int, caching: bool, tiers: tuple[Tier, ...] = ()) -> None:
        """Begin with an empty cache."""
        self.block_tokens = block_tokens
        self.caching = caching
        self.total = blocks
        self.free = [Block(number) for number in range(blocks)]
        self.known: dict[Content, list[Block]] = {}
        """Blocks by content; of several with the same one the first is found."""
        self.behind = [Memory(tier) for tier in tiers]
        self.loading_s = 0.0
        """Seconds of loads for the iteration that is being formed."""
        self.now = 0.0
        """When that begins."""
        self.token_s = 0.0
        """Seconds to compute a token, to which loads are compared."""

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold so many tokens."""
        return -(-tokens // self.block_tokens)

    def content_of(self, sequence: Sequence, blocks: int) -> list[Content]:
        """Return the content of each of the first blocks."""
        tokens = [sequence.token(position) for position in range(blocks * self.block_tokens)]
        return [tuple(tokens[: (i + 1) * self.block_tokens]) for i in range(blocks)]

    def find(self, sequence: Sequence) -> list[Block]:
        """Return the leading blocks of a sequence that are cached; its last token is not looked for."""
        found: list[Block] = []
        if self.caching:
            for content in self.content_of(sequence, (sequence.length - 1) // self.block_tokens):
                if content in self.known:
                    found.append(self.known[content][0])
                elif any(content in memory.contents for memory in self.behind):
                    found.append(Block(ELSEWHERE, content=content))
                else:
                    break
        while found and self._is_slower(found):
            found.pop()
        return found

    def _is_slower(self, found: list[Block]) -> bool:
        """Whether it is slower to load the last of these blocks, and those before it, than to compute them."""
        wanted = [block.content for block in found if block.number == ELSEWHERE]
        firsts = [next(memory for memory in self.behind if content in memory.contents) for content in wanted]
        compared = [memory for memory in firsts if memory.tier.faster]
        used = {id(memory): memory for memory in compared}.values()
        wait_s = max((memory.free_s - self.now - self.loading_s for memory in used), default=0.0)
        load_s = sum(memory.tier.latency_s for memory in used) + sum(memory.tier.block_s for memory in compared)
        return max(wait_s, 0.0) + load_s > len(compared) * self.block_tokens * self.token_s + 1e-12

    def room(self, found: list[Block]) -> int:
        """Return how many blocks are free once those that were found are held."""
        return len(self.free) - sum(block.holders == 0 for block in found)

    def hold(self, sequence: Sequence, found: list[Block]) -> None:
        """Let a sequence that begins hold the blocks that were found of it."""
        assert not sequence.blocks
        for block in found:
            if block.number != ELSEWHERE:
                if block.holders == 0:
                    self.free.remove(block)
                block.holders += 1
        if any(block.number == ELSEWHERE for block in found):
            self.loading_s = max(self.loading_s, sequence.fetched_s - self.now)
        self._load([block.content for block in found if block.number == ELSEWHERE])
        sequence.blocks = [block if block.number != ELSEWHERE else self._filled(block.content) for block in found]
        sequence.computed = len(found) * self.block_tokens

    def _load(self, contents: list[Content | None]) -> None:
        """Spend the time of loading contents, each from the first tier that has it; the first ones were used last."""
        wanted = contents
        for memory in self.behind:
            here = [content for content in wanted if content in memory.contents]
            wanted = [content for content in wanted if content not in memory.contents]
            for content in reversed(here):
                memory.contents.move_to_end(content)
            if here:
                self.loading_s = memory.load(len(here), self.now + self.loading_s) - self.now

    def prefetch(self, sequence: Sequence, now: float) -> None:
        """Begin to load to the first tier what a request that begins to wait has in others that do so."""
        for memory in self.behind[1:]:
            room = 0.8 * (self.behind[0].tier.blocks - self.total)
            full = memory.free_s - now > room * memory.tier.block_s
            if not memory.tier.prefetch or not self.caching or full:
                continue
            loaded = 0
            for content in self.content_of(sequence, (sequence.prompt - 1) // self.block_tokens):
                holders = [one for one in self.behind if content in one.contents]
                if content not in self.known and not holders:
                    break
                if content not in self.known and holders[0] is memory:
                    self._evict(content)
                    loaded += 1
            if loaded:
                sequence.fetched_s = max(sequence.fetched_s, memory.load(loaded, now))

    def _filled(self, content: Content | None) -> Block:
        """Return a free block, into which a content is loaded."""
        assert content is not None
        block = self.free.pop(0)
        self._forget(block)
        block.holders, block.content, block.written = 1, content, True
        self.known.setdefault(content, []).append(block)
        return block

    def lacks(self, sequence: Sequence, tokens: int) -> int:
        """Return how many further blocks a sequence needs to hold so many tokens."""
        return max(0, self.blocks_for(tokens) - len(sequence.blocks))

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Give a sequence the blocks for so many tokens; what these had in them is forgotten."""
        for _ in range(self.lacks(sequence, tokens)):
            block = self.free.pop(0)
            self._forget(block)
            block.holders = 1
            sequence.blocks.append(block)

    def publish(self, sequence: Sequence, tokens: int, *, write: bool = True) -> None:
        """Let others find the full blocks of a sequence's first tokens, and ``write`` those that any may look for."""
        if not self.caching:
            return
        for block, content in zip(
            sequence.blocks, self.content_of(sequence, tokens // self.block_tokens), strict=False
        ):
            if block.content is None:
                block.content = content
                self.known.setdefault(content, []).append(block)
            if write and not block.written and content[-1][0] != "request":
                block.written = True
                for number, memory in enumerate(self.behind):
                    if memory.tier.through:
                        self._evict(content, number)

    def give_up(self, sequence: Sequence) -> None:
        """Free what a sequence holds, its last block first."""
        for block in reversed(sequence.blocks):
            block.holders -= 1
            if block.holders == 0:
                self.free.append(block)
        sequence.blocks = []
        sequence.computed = 0

    def _forget(self, block: Block) -> None:
        """Let a block not be found any more; what it had goes to the tiers."""
        if block.content is not None:
            self._evict(block.content)
            self.known[block.content].remove(block)
            if not self.known[block.content]:
                del self.known[block.content]
            block.content, block.written = None, False

    def _evict(self, content: Content, first: int = 0) -> None:
        evicted: Content | None = content
        for memory in self.behind[first:]:
            if evicted is not None:
                evicted = memory.keep(evicted)
