"""The state of a simulation, in arrays that compiled code reads and writes.

A *slot* holds one request from its arrival to its last token. Slots are linked into lists: the free ones, and of each
replica the waiting and the running ones. A *place* is a row of a replica's table of blocks, one per running sequence.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from sightline.simulation.load import Floats, Integers
from sightline.simulation.rows import bundle

NOTHING: Final = -1
"""No slot, no block."""
UNFINISHED_PROMPT: Final = -2
"""In place of the step in which a sequence ends, where a part of its prompt was processed."""
MANY: Final = 1 << 40
"""More than any simulation has: a limit that nothing reaches."""

# Counters of a replica (`Replica.counts`).
RUNNING: Final = 0
"""Sequences that hold a place."""
DECODING: Final = 1
"""Of these, sequences that have their first token and not their last."""
CONTEXT: Final = 2
"""Cached tokens of the decoding sequences."""
STEPS: Final = 3
"""Iterations so far in which the decoding sequences got a token."""
WAITING: Final = 4
FIRST_WAITING: Final = 5
LAST_WAITING: Final = 6
FIRST_RUNNING: Final = 7
LAST_RUNNING: Final = 8
UNFINISHED: Final = 9
"""Sequences whose prompts are processed in part."""
PARTIAL: Final = 10
"""The last of them; `NOTHING` for none."""
ADMITTED: Final = 11
"""Sequences admitted so far, which orders them."""
HEAP: Final = 12
"""Entries of the heap of completions."""
FREE_BLOCKS: Final = 13
FIRST_FREE: Final = 14
LAST_FREE: Final = 15
POOLED: Final = 16
"""Blocks without content of interest that running sequences hold."""
PROMISED: Final = 17
"""Blocks that running sequences will still take, where admission promised them."""
REPEATS: Final = 18
"""Decode steps that may follow unscheduled: nothing that scheduling looks at changes in them."""
BATCH_DECODES: Final = 19
"""Of the iteration under way: sequences that get a further token."""
BATCH_TOKENS: Final = 20
"""Of the iteration under way: new tokens of prompts."""
BATCH_PROMPTS: Final = 21
"""Of the iteration under way: prompts, or chunks of them."""
ENDING: Final = 22
"""Of the iteration under way: prompts that it finishes."""
JOINED: Final = 23
"""Sequences that have not decoded yet."""
LEAVING: Final = 24
"""Sequences that have their last token and still hold their place and blocks."""
PLACES: Final = 25
"""Free places."""
UNSERVED: Final = 26
"""Decode steps since prompts were last processed."""
FULL: Final = 27
"""Whether no further request is tried until one has ended (SGLang, transformers) or the others have decoded (TGI)."""
ENDS: Final = 28
"""Sequences that ended or were put off since that was last looked at."""
GHOSTS: Final = 29
"""Sequences that have ended and whose work goes on until their batch has (static batching)."""
GHOST_CONTEXT: Final = 30
SHARED_STEP: Final = 31
"""Decode step at which the expected share of answers was last set (SGLang)."""
POOL: Final = 32
"""The pool of equal replicas that this one is of; it never changes."""
HEAD: Final = 33
"""The first of the ranks whose iterations begin together with this one's."""
PORT: Final = 34
"""The first replica on this one's node, whose ports to the network they share."""
READY: Final = 35
"""Requests whose keys and values came from the replica that processed their prompts, and that wait to decode."""
FIRST_READY: Final = 36
LAST_READY: Final = 37
FIRST_SENT: Final = 38
"""Requests whose prompts are processed here and whose keys and values are to be sent, in order of time."""
LAST_SENT: Final = 39
ENTERING: Final = 40
"""Requests that the front end has not handed over yet."""
QUEUED_TOKENS: Final = 41
"""Tokens that waiting requests will hold, and those that their router expected to be computed."""
UNUSED: Final = 42
"""Blocks that were never taken, the first ones of all; they are taken before those in the queue of free ones."""
ALIKE: Final = 43
"""Whether blocks are only counted, because nobody finds the content of any."""
COUNTS: Final = 44
# Behind these, of each tier behind the cache, in order:
TIER_STORE: Final = 0
"""The number of its store."""
TIER_LOADED: Final = 1
"""Blocks of prompts that were loaded from it when their requests were first admitted."""
TIER_COUNTS: Final = 2

# Clocks of a replica (`Replica.clocks`).
NEXT: Final = 0
"""When the iteration under way ends and the next is scheduled; infinite for an idle replica."""
DECODED: Final = 1
"""When the last decode step ended."""
ATTENTION: Final = 2
"""Seconds that the attention of the prompts takes in the iteration under way."""
STARTED: Final = 3
"""When the iteration under way started."""
SEEN: Final = 4
"""Requests that arrived later are not seen by the scheduling under way."""
SHARE: Final = 5
"""Expected share of answers when it was last set (SGLang)."""
ARRIVED: Final = 6
"""When the last request came to this replica."""
PORT_FREE: Final = 7
"""When the ports of this replica's node have sent what was given to them; of the first replica there."""
CREDIT: Final = 8
"""What round robin owes this replica: its speed for each request, less all speeds for each that it got."""
SERVES_FROM: Final = 9
"""From when on requests are sent to this replica; infinite where none are."""
LOADING: Final = 10
"""Seconds that keys and values take from tiers to the device for the iteration under way."""
FRONT: Final = 11
"""When the process between clients and this replica has handled the requests and tokens that came so far."""
SHOWN: Final = 12
"""When it began with the tokens of the last iteration, as clients see them."""
CLOCKS: Final = 13
# Behind these, of each tier, in order:
TIER_LOAD_S: Final = 0
"""Seconds of loads so far, those in which its link was busy with others included."""
TIER_CLOCKS: Final = 1

# Where a request is (`SLOT`).
ON_ITS_WAY: Final = 0
"""Between replicas, or to a queue; a turn may not even be sent yet."""
QUEUED: Final = 1
TO_DECODE: Final = 2
"""It waits to decode what another replica has begun."""
RUNS: Final = 3

# What has to fit in free blocks before a request is admitted (`Facts.reserves`).
CHUNK: Final = 0
PROMPT: Final = 1
ESTIMATE: Final = 2
ANSWER: Final = 3

# What a replica does of a request (`Facts.role`).
WHOLE: Final = 0
PREFILL: Final = 1
DECODE: Final = 2

# When others may find a prompt's blocks (`Facts.published`).
SCHEDULED: Final = 0
COMPUTED: Final = 1
ENDED: Final = 2


def record(integers: str, floats: str = "") -> np.dtype[np.void]:
    """Return the type of a row with these columns."""
    columns = [(name, np.int64) for name in integers.split()] + [(name, np.float64) for name in floats.split()]
    return np.dtype(columns, align=True)


SLOT: Final = record(
    "request prompt output prefix_id prefix_tokens session_id transcript priority cached preemptions generated "
    "computed expected keyed place order done_at following preceding next_turn decoded held further prefilled_by "
    "stage at",
    "arrival_s scheduled_s first_s token_s think_s prefilled_s ready_s fetched_s",
)
"""A request under way. ``request``: its number in the load. ``cached``: tokens of its prompt that the prefix cache had
when it was first scheduled. ``generated``: tokens that it had when it was last put off, or when its decoding began.
``computed``: tokens in the cache while its prompt is processed; while it waits, blocks that were found of it when the
queue was last sorted by that. ``keyed``: its leading blocks that others may find.
``expected``: tokens of its prompt that were not cached when it was routed, where its router counts them.
``place``: its row in the table of blocks. ``order``: its number among those that arrived, and, from its admission on,
among those that its replica admitted, unless the policy goes by arrival. ``done_at``: the
replica's decode step that yields its last token, `NOTHING` before it decodes. ``following``, ``preceding``: its
neighbors in a list. ``next_turn``: the turn that waits for it to end. ``token_s``: when its last token came, where it
is not decoding. ``think_s``: seconds between the previous turn's last token and this one. Of a sequence whose passes
yield several tokens: ``decoded``, tokens of its passes since its decoding began, and ``held``, its blocks. ``further``:
tokens of its answer that another replica will generate. ``prefilled_by``: the replica that processed its prompt where
another one decodes, else `NOTHING`. ``prefilled_s``, ``ready_s``: when its prompt was processed, and when its keys and
values came. ``fetched_s``: when what it has in slower tiers is in the first. ``stage``, ``at``: where it is, and at
which replica. ``request`` is `NOTHING` once it has ended."""
Slots: TypeAlias = Any
"""An array of `SLOT`."""

STACK: Final = record("key order slot ending joined place left_place left_blocks left_keyed left_full tokens to_come")
"""Lists of sequences: a heap of completions (``key``: decode step, ``order`` of admission, ``slot``), slots whose
prompts the iteration under way finishes, slots that have not decoded yet, free places, and what sequences that have
ended still hold; and ``tokens`` so far and ``to_come``, most first (LightLLM)."""
BLOCK: Final = record("key holders following preceding twin pooled")
"""A block: what it has in it (0: nothing that may be found), sequences that hold it, its neighbors among the free ones,
the next block with the same content. ``pooled`` is a stack of blocks that sequences hold and nobody else may find.
Those that a store keeps have neighbors in its queue; ``pooled`` is the first block of a bucket of its hash table, and
``twin`` the next one there."""
UNSHARED: Final = -1
"""The key of keys and values that nobody will ask for."""
STORE: Final = record("row rows used through faster prefetch", "block_s latency_s free_s")
"""A store, which a replica has alone or with others, and its link. ``row``: the first of its ``rows`` in the table of
blocks that stores keep, of which so many were ever ``used``. ``through``: what is computed is written at once.
``faster``: blocks are loaded only where that is faster than to compute them. ``prefetch``: it begins to load to the
first tier what a request has in it that begins to wait. Seconds to load a block, and of one load in addition, and
when the link has loaded what was asked of it so far."""
INDEX: Final = record("key block")
"""A row of the hash table of blocks."""


@bundle
class Replica(NamedTuple):
    """One replica of an engine; in a fleet every array has the replicas along a first dimension.

    Few arrays, because compiled code counts references to each of them in every call.
    """

    counts: Integers
    clocks: Floats
    phases: Integers
    """Decoding sequences by (cached tokens - decode steps) modulo the block: who needs a block in which step."""
    stacks: Any
    """Of `STACK`."""
    table: Any
    """Blocks of a place's sequence that have keys; as wide as the longest one so far needs it (`with_rows`)."""
    blocks: Any
    """Of `BLOCK`."""
    index: Any
    """Of `INDEX`."""
    kept: Any
    """Of `BLOCK`, of all stores; these are the whole fleet's, as are their queues."""
    stores: Any
    """Of `STORE`."""
    queues: Integers
    """The first and the last in the queue of each store's blocks, the least recently used one first."""


class Facts(NamedTuple):
    """An engine's limits and rules, as numbers; see `sightline.frameworks.engine.Serving`."""

    policy: int
    block_tokens: int
    blocks: int
    """Blocks of a replica's cache."""
    context_tokens: int
    """Longest sequence."""
    max_sequences: int
    token_budget: int
    """New tokens of an iteration; of a pipeline those of all of its micro-batches."""
    prefill_tokens: int
    """Prompt tokens after which an iteration takes no further prompt."""
    max_concurrent: int
    """Requests in the server beyond which further ones are refused."""
    chunked: bool
    """Prompts are cut at the token budget."""
    prefix_cache: bool
    by_priority: bool
    longest_prefix: bool
    """Of the first waiting requests those with the most cached tokens go first."""
    reserves: int
    watermark_blocks: int
    """Blocks that admission leaves free."""
    spare_blocks: int
    """Blocks that have to be free besides those that decoding sequences take."""
    published: int
    takes_all: bool
    """Admission takes all blocks that a sequence will ever need."""
    keeps_answers: bool
    """Answers stay in the prefix cache too."""
    ahead: bool
    """An iteration is scheduled while the one before it runs."""
    wait_steps: int
    waiting_share: float
    answer_share: float
    least_answer_share: float
    answer_share_steps: int
    stages: int = 1
    """Micro-batches that are in flight in a pipeline; an iteration is a round of all of them."""
    lockstep: int = 1
    """Ranks next to each other whose iterations begin together."""
    pass_tokens: int = 1
    """Tokens of a sequence that a decode pass computes: its own, and those drafted, which it verifies."""
    pass_slots: int = 1
    """Slots of the cache that a decoding sequence needs beyond its cached tokens: for these tokens, and for those that
    are drafted behind them."""
    drafts_up_to: int = MANY
    """Decoding sequences above which a pass verifies none, though its slots and its share of budgets stay."""
    acceptance: float = 0.0
    """Probability that a drafted token is accepted where those before it were."""
    seed: int = 0
    """Of what is drawn in a simulation: which drafted tokens are accepted."""
    role: int = WHOLE
    """What a replica does of a request: all of it, its prompt, or its answer."""
    replicas: int = 1
    """Replicas of the pool; those of one follow those of another, and those that decode alone come last."""
    per_node: int = 1
    """Replicas on a node."""
    speed: float = 1.0
    """Requests that a replica answers in the time in which others answer one, by which routers weigh it."""
    computes_last: bool = False
    """Replicas that decode alone compute a prompt's last token again, instead of getting the first token sent."""
    decode_tokens: int = 0
    """Free tokens of the cache that replicas that decode alone keep for the answer of each request."""
    request_s: float = 0.0
    """Seconds of the process between clients and a replica on a request; it does one thing at a time."""
    request_token_s: float = 0.0
    """The same per token of its prompt."""
    chunk_s: float = 0.0
    """The same per sequence of an iteration, whose next token it streams."""
    max_queued: int = MANY
    """Requests in the queue beyond which further ones are refused."""
    queue_s: float = inf
    """Seconds in the queue after which a request is dropped."""
    loads_along: bool = False
    """Keys and values are loaded from tiers layer by layer, while the iteration computes; else before it."""
    token_s: float = 0.0
    """Seconds to compute a token of a prompt, to which those of loading it are compared."""


class Tier(NamedTuple):
    """A memory behind the cache of a replica, which keeps what that evicts."""

    blocks: int
    block_s: float
    """Seconds to load a block to the device."""
    latency_s: float = 0.0
    """Seconds of one load, in addition."""
    name: str = ""
    shared: str = "rank"
    """Who has it together: nobody (rank), all on a node (node), or all."""
    through: bool = False
    """What is computed is written at once, not only what is evicted."""
    faster: bool = False
    """Blocks are loaded only where that is faster than to compute them."""
    prefetch: bool = False
    """Blocks of requests that begin to wait are loaded to the first tier."""


FactsOfPools: TypeAlias = Any
"""An array with the facts of each pool as a record."""


def as_records(pools: Sequence[Facts]) -> FactsOfPools:
    """Return the facts of pools as compiled code takes them: a record each, which it passes as one thing."""
    types = {"int": np.int64, "bool": np.int64, "float": np.float64}
    fields = [(name, types[kind.__name__]) for name, kind in Facts.__annotations__.items()]
    return np.array([tuple(facts) for facts in pools], fields)


def grown(slots: Slots, n: int) -> Slots:
    """Return slots with room for ``n``, the first ones as they are."""
    return np.concatenate([slots, np.zeros(n - slots.size, SLOT)])


def new_fleet(pools: Sequence[Facts], tiers: Sequence[Sequence[Tier]] = ()) -> Replica:
    """Return the idle replicas of all pools, along the first dimension of every array.

    Arrays are as long as the largest replica needs them. ``tiers``: those of each pool; by default none.
    """
    behind = tiers or [()] * len(pools)
    most = max(map(len, behind))
    places = max(facts.max_sequences for facts in pools)
    blocks = max(facts.blocks for facts in pools)
    replicas = sum(facts.replicas for facts in pools)
    fleet = Replica(
        counts=np.zeros((replicas, COUNTS + most * TIER_COUNTS), np.int64),
        clocks=np.zeros((replicas, CLOCKS + most * TIER_CLOCKS)),
        phases=np.zeros((replicas, max(facts.block_tokens for facts in pools)), np.int64),
        stacks=np.zeros((replicas, places), STACK),
        table=np.zeros((replicas, places, 1), np.int32),
        blocks=np.zeros((replicas, blocks), BLOCK),
        index=np.zeros((replicas, 1 << (2 * blocks).bit_length()), INDEX),
        kept=np.zeros(0, BLOCK),
        stores=np.zeros(0, STORE),
        queues=np.zeros(0, np.int64),
    )
    fleet.stacks["place"] = np.arange(places)
    fleet.clocks[:, NEXT] = np.inf
    fleet.clocks[:, [DECODED, SERVES_FROM, FRONT]] = -np.inf
    for counter in (FIRST_WAITING, LAST_WAITING, FIRST_RUNNING, LAST_RUNNING, PARTIAL, FIRST_FREE, LAST_FREE):
        fleet.counts[:, counter] = NOTHING
    for counter in (FIRST_READY, LAST_READY, FIRST_SENT, LAST_SENT):
        fleet.counts[:, counter] = NOTHING
    first = 0
    for pool, facts in enumerate(pools):
        of, within = slice(first, first + facts.replicas), np.arange(facts.replicas)
        fleet.clocks[of, SHARE] = facts.answer_share
        fleet.counts[of, POOL] = pool
        fleet.counts[of, HEAD] = first + within // facts.lockstep * facts.lockstep
        fleet.counts[of, PORT] = first + within // facts.per_node * facts.per_node
        fleet.counts[of, FREE_BLOCKS] = fleet.counts[of, UNUSED] = facts.blocks
        fleet.counts[of, ALIKE] = not (facts.prefix_cache or behind[pool])
        fleet.counts[of, PLACES] = facts.max_sequences
        first += facts.replicas
    return _with_stores(fleet, behind) if most else fleet


def with_rows(fleet: Replica, pools: Sequence[Facts], tokens: int) -> Replica:
    """Return the fleet with room in its table of blocks for sequences of so many tokens.

    A row for the longest context of every sequence that may run would be tens of GiB where a block is a token.
    """
    blocks = max(-(-min(tokens, of.context_tokens) // of.block_tokens) if of.prefix_cache else 0 for of in pools)
    had = fleet.table.shape[2]
    if blocks <= had:
        return fleet
    table, written = np.zeros((*fleet.table.shape[:2], blocks), np.int32), fleet.table.any(axis=2)
    table[written, :had] = fleet.table[written]
    return fleet._replace(table=table)


def renew(fleet: Replica, r: int, facts: Facts) -> None:
    """Put a new replica in the place of one that has stopped, with nothing in its cache; all are of one pool."""
    ranks = fleet.counts[r, [HEAD, PORT]]
    new = new_fleet([facts._replace(replicas=1)])
    for name in Replica._fields:
        # Only what sequences have written to a table is read; replicas that come and go have no stores.
        if name not in ("table", "kept", "stores", "queues"):
            getattr(fleet, name)[r] = getattr(new, name)[0]
    fleet.counts[r, [HEAD, PORT]] = ranks


def _with_stores(fleet: Replica, behind: Sequence[Sequence[Tier]]) -> Replica:
    """Return the fleet with the stores of each pool's tiers, and which of them are each replica's."""
    numbers, found = dict[tuple[int, str, int], int](), list[Tier]()
    for r, (pool, port) in enumerate(fleet.counts[:, [POOL, PORT]].tolist()):
        for number in range(max(map(len, behind))):
            tier = behind[pool][number] if number < len(behind[pool]) else Tier(0, 0.0)
            at = {"rank": r, "node": port, "all": 0}[tier.shared]
            store = numbers.setdefault((number, tier.shared, at), len(found))
            found[store:] = found[store:] or [tier]
            fleet.counts[r, COUNTS + number * TIER_COUNTS + TIER_STORE] = store
    stores, rows = np.zeros(len(found), STORE), np.array([tier.blocks for tier in found])
    stores["row"], stores["rows"] = np.cumsum(rows) - rows, rows
    for name in ("through", "faster", "prefetch", "block_s", "latency_s"):
        stores[name] = [getattr(tier, name) for tier in found]
    kept = np.zeros(int(rows.sum()), BLOCK)
    kept["pooled"] = NOTHING
    return fleet._replace(kept=kept, stores=stores, queues=np.full(2 * len(found), NOTHING))


def loaded_from(fleet: Replica, pool: int, tier: int) -> tuple[int, float]:
    """Return the blocks of prompts that were loaded from a tier of a pool's replicas, and the seconds of its loads."""
    of = fleet.counts[:, POOL] == pool
    blocks = fleet.counts[of, COUNTS + tier * TIER_COUNTS + TIER_LOADED].sum()
    return int(blocks), float(fleet.clocks[of, CLOCKS + tier * TIER_CLOCKS + TIER_LOAD_S].sum())
