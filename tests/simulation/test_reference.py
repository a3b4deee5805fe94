"""The plain simulator, held to schedules that were worked out by hand.

Every iteration takes one second, unless a case says otherwise, so that times are numbers of iterations.
"""

from typing import Any

import numpy as np
import pytest
from simulation.reference.lightllm import LightLlm
from simulation.reference.scheduler import Rules
from simulation.reference.sequences import Sequence
from simulation.reference.server import serve

from sightline.simulation.load import Requests
from sightline.simulation.outcome import (
    COMPLETED,
    NO_ROOM,
    NOT_ADMITTED,
    QUEUE_FULL,
    TIMED_OUT,
    TOO_LONG,
    WAITED,
    Outcome,
)

PLAIN: dict[str, Any] = {"prefix_cache": False, "blocks": 100, "token_budget": 100}


def load(*requests: tuple[float, int, int], **columns: list[Any]) -> Requests:
    """Requests of (arrival, prompt, answer)."""
    arrival, prompt, output = (np.array(column) for column in zip(*requests, strict=True))
    further = {name: np.array(column) for name, column in columns.items()}
    return Requests(arrival_s=arrival.astype(float), prompt_tokens=prompt, output_tokens=output, **further)


def served(requests: Requests, policy: str, **rules: Any) -> Outcome:
    return serve(requests, Rules(policy=policy, **{**PLAIN, **rules}), lambda *_: 1.0)


def times(outcome: Outcome) -> list[list[float]]:
    """When each request was scheduled, and had its first and its last token."""
    columns = (outcome.scheduled_s, outcome.first_token_s, outcome.last_token_s)
    return [list(row) for row in np.array(columns).T]


def test_vllm_cuts_prompts_at_the_budget_that_decodes_leave() -> None:
    # 0: A 6, B 2 | 1: A decodes, B 7 | 2: B's last, C 3 | 3: B and C decode
    outcome = served(load((0, 6, 2), (0, 10, 2), (0, 3, 2)), "vllm", token_budget=8)
    assert times(outcome) == [[0, 1, 2], [0, 3, 4], [2, 3, 4]]
    assert outcome.iterations.prompt_tokens.tolist() == [8, 7, 4, 0]
    assert outcome.iterations.decodes.tolist() == [0, 1, 0, 2]


def test_vllm_puts_off_the_last_admitted_and_computes_it_again() -> None:
    # Two prompts of two blocks, five blocks. 1: A takes the fifth; B, who needs one too, is put off. It has 9 tokens by
    # then, three blocks, which fit once A has ended.
    outcome = served(load((0, 8, 8), (0, 8, 8)), "vllm", blocks=5)
    assert times(outcome) == [[0, 1, 8], [0, 1, 15]]
    assert outcome.preemptions.tolist() == [0, 1]
    assert outcome.iterations.prompt_tokens.tolist() == [16, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]


def test_vllm_finds_what_is_left_of_a_sequence_that_it_put_off() -> None:
    # As above; A's fourth block was B's second, and B's first is still there.
    outcome = served(load((0, 8, 8), (0, 8, 8)), "vllm", blocks=5, prefix_cache=True)
    assert outcome.iterations.prompt_tokens[8] == 5
    assert outcome.cached_tokens.tolist() == [0, 0]


def test_vllm_shares_a_prefix_within_an_iteration() -> None:
    shared = {"prefix_id": [0, 0, 0], "prefix_tokens": [8, 8, 8]}
    outcome = served(load((0, 10, 1), (0, 10, 1), (0, 8, 1), **shared), "vllm", prefix_cache=True)
    # One token of a prompt is always computed, so that its whole last block is.
    assert outcome.cached_tokens.tolist() == [0, 8, 4]
    assert outcome.iterations.prompt_tokens.tolist() == [10 + 2 + 4]


def test_the_block_given_up_first_is_taken_first_and_of_a_sequence_its_last() -> None:
    # Four blocks. A leaves two, B two more; C needs one new block beside B's two: A's second. So D finds A's first.
    prefixes = {"prefix_id": [0, 1, 1, 0], "prefix_tokens": [8, 8, 8, 8]}
    requests = load((0, 8, 1), (2, 8, 1), (4, 9, 1), (6, 9, 1), **prefixes)
    assert served(requests, "vllm", blocks=4, prefix_cache=True).cached_tokens.tolist() == [0, 0, 8, 4]


@pytest.mark.parametrize(("reserves", "scheduled_s"), [("chunk", 0), ("prompt", 5)])
def test_vllm_admits_by_the_first_chunk_or_by_the_whole_prompt(reserves: str, scheduled_s: float) -> None:
    # A holds two of four blocks, then three. B's first chunk has two tokens, its prompt three blocks.
    outcome = served(load((0, 8, 5), (0, 12, 1)), "vllm", blocks=4, token_budget=10, reserves=reserves)
    assert outcome.scheduled_s[1] == scheduled_s


def test_vllm_admits_nobody_behind_the_first_that_does_not_fit() -> None:
    outcome = served(load((0, 8, 5), (0, 12, 1), (0, 1, 1)), "vllm", blocks=4, reserves="prompt")
    assert outcome.scheduled_s.tolist() == [0, 5, 5]


def test_vllm_runs_so_many_sequences_and_the_more_important_first() -> None:
    requests = load((0, 4, 2), (0, 4, 2), (0.5, 4, 2), priority=[1, 2, 0])
    assert served(requests, "vllm", max_sequences=1).scheduled_s.tolist() == [0, 2, 4]
    assert served(requests, "vllm", max_sequences=1, order="priority").scheduled_s.tolist() == [0, 4, 2]


def test_vllm_puts_off_the_least_important() -> None:
    # 1: A has three blocks, B two. 2: B needs a third.
    requests = load((0, 8, 4), (0.5, 8, 4), priority=[1, 0])
    assert served(requests, "vllm", blocks=5).preemptions.tolist() == [0, 1]
    assert served(requests, "vllm", blocks=5, order="priority").preemptions.tolist() == [1, 0]


def test_an_iteration_that_is_formed_ahead_does_not_see_what_came_since() -> None:
    # 0: A, C | 1: both decode, and A ends; B came | 2, formed during 1: C | 3, formed during 2: B beside C
    requests = load((0, 4, 2), (0, 4, 9), (1.5, 4, 1))
    assert served(requests, "vllm").scheduled_s.tolist() == [0, 0, 2]
    assert served(requests, "vllm", ahead=True).scheduled_s.tolist() == [0, 0, 3]
    # With two places, that of A is seen to be free when the iteration after the next is formed.
    requests = load((0, 4, 2), (0, 4, 9), (0, 4, 1))
    assert served(requests, "vllm", max_sequences=2).scheduled_s.tolist() == [0, 0, 2]
    assert served(requests, "vllm", max_sequences=2, ahead=True).scheduled_s.tolist() == [0, 0, 3]
    # An idle engine waits for nothing.
    assert served(load((0, 4, 2), (7, 4, 1)), "vllm", ahead=True).scheduled_s.tolist() == [0, 7]


def test_vllm_before_ran_prompts_alone() -> None:
    # 0: A | 1: A decodes | 2: B alone | 3: both decode, then A
    outcome = served(load((0, 4, 5), (1.5, 4, 2)), "vllm-0", chunked=False)
    assert times(outcome) == [[0, 1, 6], [2, 3, 4]]
    assert outcome.iterations.decodes.tolist() == [0, 1, 0, 2, 1, 1]


def test_vllm_before_took_whole_prompts_within_the_budget() -> None:
    outcome = served(load((0, 6, 1), (0, 5, 1), (0, 1, 1)), "vllm-0", chunked=False, token_budget=10)
    assert outcome.scheduled_s.tolist() == [0, 1, 1]


def test_vllm_before_kept_a_watermark_free() -> None:
    requests = load((0, 8, 2), (0, 8, 2))
    assert served(requests, "vllm-0", chunked=False, blocks=5).scheduled_s.tolist() == [0, 0]
    assert served(requests, "vllm-0", chunked=False, blocks=5, watermark=0.4).scheduled_s.tolist() == [0, 2]


def test_vllm_before_needed_a_free_block_for_every_decode() -> None:
    # Both hold two blocks of four, with room for two more tokens each; yet B is put off.
    outcome = served(load((0, 6, 2), (0, 6, 2)), "vllm-0", chunked=False, blocks=4)
    assert times(outcome) == [[0, 1, 2], [0, 1, 3]]
    assert outcome.preemptions.tolist() == [0, 1]


def test_sglang_runs_prompt_chunks_before_decodes() -> None:
    # 0: A 8 of 12 | 1: A's last 4, B 4 | 2: both decode
    outcome = served(load((0, 12, 2), (0.5, 4, 2)), "sglang", token_budget=8, block_tokens=1)
    assert times(outcome) == [[0, 2, 3], [1, 2, 3]]
    assert outcome.iterations.prompt_tokens.tolist() == [8, 8, 0]


def test_sglang_shares_a_prefix_only_from_the_next_iteration_on() -> None:
    shared = {"prefix_id": [0, 0, 0], "prefix_tokens": [8, 8, 8]}
    requests = load((0, 10, 1), (0, 10, 1), (0.5, 10, 1), **shared)
    outcome = served(requests, "sglang", block_tokens=1, prefix_cache=True, prefix_from="computed")
    assert outcome.cached_tokens.tolist() == [0, 0, 8]


def test_sglang_fills_a_place_in_a_full_batch_one_decode_late() -> None:
    # Of 30 slots A is expected to need 17, C 8; B, who needs 9, finds 5. C ends at 3, which the decode formed then
    # notices, so that B begins at 4.
    outcome = served(load((0, 8, 8), (0, 4, 3), (0, 4, 4)), "sglang", block_tokens=1, blocks=30, answer_share=0.7)
    assert times(outcome) == [[0, 1, 9], [0, 1, 3], [4, 5, 8]]


def test_sglang_puts_off_who_generated_least_and_had_the_longer_prompt() -> None:
    # With nothing expected of running answers B is admitted at 1. At 7 both have 6 tokens and one slot is free.
    rules = {"block_tokens": 1, "blocks": 20, "answer_share": 0.0, "least_answer_share": 0.0}
    outcome = served(load((0, 4, 8), (0.5, 5, 8)), "sglang", **rules)
    assert times(outcome) == [[0, 1, 9], [1, 2, 11]]
    assert outcome.preemptions.tolist() == [0, 1]


def test_sglang_may_take_the_longest_cached_prefix_first() -> None:
    prefixes = {"prefix_id": [0, -1, 0], "prefix_tokens": [4, 0, 4]}
    requests = load((0, 8, 1), (0.5, 8, 1), (0.5, 8, 1), **prefixes)
    rules = {"block_tokens": 1, "prefix_cache": True, "prefix_from": "computed", "max_sequences": 1}
    assert served(requests, "sglang", **rules).scheduled_s.tolist() == [0, 1, 2]
    assert served(requests, "sglang", order="longest-prefix", **rules).scheduled_s.tolist() == [0, 2, 1]


@pytest.mark.parametrize(("arrivals", "first_s"), [([0.5], [5]), ([0.5, 0.5], [2, 2])])
def test_tgi_waits_for_enough_prompts_or_long_enough(arrivals: list[float], first_s: list[float]) -> None:
    # Four run. Half as many that wait may run at once; a single one waits until iteration 4.
    requests = load(*[(0, 4, 9)] * 4, *[(at, 4, 1) for at in arrivals])
    outcome = served(requests, "tgi", chunked=False, wait_steps=4, waiting_share=0.5)
    assert outcome.first_token_s[4:].tolist() == first_s


def test_tgi_decodes_once_after_prompts_that_came_between() -> None:
    # 0: A | 1: B | 2: both decode, although C waits | 3: C
    outcome = served(load((0, 4, 9), (0.5, 4, 9), (1.5, 4, 9)), "tgi", chunked=False)
    assert outcome.scheduled_s.tolist() == [0, 1, 3]


def test_tgi_3_mixes_prompts_with_decodes_and_reserves_answers() -> None:
    # A needs two of four blocks to its end, B three.
    outcome = served(load((0, 4, 5), (0, 8, 2)), "tgi", blocks=4)
    assert times(outcome) == [[0, 1, 5], [5, 6, 7]]
    outcome = served(load((0, 4, 5), (0, 8, 2)), "tgi", blocks=5, token_budget=8)
    assert times(outcome) == [[0, 1, 5], [0, 2, 3]]
    assert outcome.iterations.prompt_tokens.tolist() == [8, 4, 0, 0, 0]


def test_tgi_remembers_prompts_once_they_are_answered_and_no_answers() -> None:
    turns = {"session_id": [0, 0], "prefix_id": [-1, -1]}
    rules = {"prefix_cache": True, "prefix_from": "ended", "prefix_answers": False}
    requests = load((0, 8, 5), (0, 16, 1), **turns)
    assert served(requests, "tgi", **rules).cached_tokens.tolist() == [0, 8]


def test_lightllm_looks_for_prompts_after_so_many_decodes() -> None:
    outcome = served(load((0, 4, 10), (0.5, 4, 1)), "lightllm", block_tokens=1, wait_steps=3)
    assert times(outcome) == [[0, 1, 11], [4, 5, 5]]


def test_lightllm_admits_by_the_peak_of_all_answers() -> None:
    scheduler = LightLlm(Rules(policy="lightllm", block_tokens=1))
    long, short = Sequence(row=0, arrival_s=0, prompt=4, output=6), Sequence(row=1, arrival_s=0, prompt=6, output=2)
    # Prompts yield a token each. The short one then decodes once, with the long one; that decodes five times.
    assert scheduler.peak([long, short]) == 4 + 6 + 2
    assert scheduler.peak([long]) == 4 + 5
    requests = load((0, 4, 6), (0, 6, 2))
    assert served(requests, "lightllm", block_tokens=1, blocks=12).scheduled_s.tolist() == [0, 0]
    assert served(requests, "lightllm", block_tokens=1, blocks=11).scheduled_s.tolist() == [0, 6]


def test_transformers_skips_whom_the_cache_has_no_room_for() -> None:
    outcome = served(load((0, 12, 4), (0, 12, 1), (0, 4, 1)), "transformers", blocks=5)
    assert times(outcome) == [[0, 1, 4], [4, 5, 5], [0, 1, 1]]


def test_transformers_puts_off_the_last_that_starves_until_another_ends() -> None:
    outcome = served(load((0, 8, 8), (0, 8, 8), (2.5, 1, 1)), "transformers", blocks=5)
    assert times(outcome) == [[0, 1, 8], [0, 1, 15], [8, 9, 9]]
    assert outcome.preemptions.tolist() == [0, 1, 0]


def test_transformers_admits_one_prompt_at_a_time_below_its_margin() -> None:
    # 1: A, B hold 18 of 20 blocks, less than 15 % are free: C, who would fit, waits for B's end.
    requests = load((0, 34, 4), (0, 34, 2), (0.5, 1, 1))
    assert served(requests, "transformers", blocks=20, watermark=0.15).scheduled_s.tolist() == [0, 0, 2]
    assert served(requests, "transformers", blocks=20).scheduled_s.tolist() == [0, 0, 1]


def test_tensorrt_llm_takes_whole_prompts_beside_decodes() -> None:
    outcome = served(load((0, 6, 3), (0, 6, 1)), "tensorrt-llm", token_budget=10, chunked=False)
    assert times(outcome) == [[0, 1, 3], [1, 2, 2]]
    outcome = served(load((0, 6, 3), (0, 6, 1)), "tensorrt-llm", token_budget=10)
    assert outcome.iterations.prompt_tokens.tolist() == [10, 2, 0]


def test_tensorrt_llm_never_evicts() -> None:
    outcome = served(load((0, 8, 8), (0, 8, 8)), "tensorrt-llm", blocks=5)
    assert times(outcome) == [[0, 1, 8], [8, 9, 16]]


def test_orca_takes_all_prompts_that_will_fit_to_their_end() -> None:
    outcome = served(load((0, 50, 3), (0, 60, 1), (0.5, 8, 2)), "orca", max_sequences=2)
    assert times(outcome) == [[0, 1, 3], [0, 1, 1], [1, 2, 3]]


def test_a_static_batch_runs_to_its_longest_answer_with_those_that_are_done() -> None:
    requests = load((0, 4, 4), (0, 4, 2), (0.5, 4, 1))
    rules = Rules(policy="static", max_sequences=2, prefix_cache=False)
    asked: list[tuple[int, int]] = []

    def seconds(decodes: int, context: int, _: object, __: float) -> float:
        asked.append((decodes, context))
        return 1.0

    outcome = serve(requests, rules, seconds)
    assert times(outcome) == [[0, 1, 4], [0, 1, 2], [4, 5, 5]]
    assert asked == [(0, 0), (2, 8), (2, 10), (2, 12), (0, 0)]


def test_times_are_those_of_what_an_iteration_has() -> None:
    asked = []

    def seconds(decodes: int, context: int, prompts: list[tuple[int, int]], _: float) -> float:
        asked.append((decodes, context, prompts))
        return 1.0

    serve(load((0, 6, 3), (0, 10, 1)), Rules(token_budget=8, prefix_cache=False), seconds)
    assert asked == [(0, 0, [(6, 0), (2, 0)]), (1, 6, [(7, 2)]), (1, 7, [(1, 9)])]


def test_a_client_of_a_closed_loop_sends_once_it_has_its_answer() -> None:
    outcome = serve(load(*[(0, 4, 1)] * 3), Rules(), lambda *_: 1.0, concurrency=1, think_s=0.5)
    assert outcome.requests.arrival_s.tolist() == [0, 1.5, 3]


def test_a_client_of_a_closed_loop_has_one_conversation_at_a_time() -> None:
    turns = {"session_id": [0, 0, 1, 2], "think_s": [0.0, 3.0, 0.0, 0.0]}
    requests = load((0, 4, 1), (0, 8, 1), (0, 4, 1), (0, 4, 1), **turns)
    outcome = serve(requests, Rules(), lambda *_: 1.0, concurrency=2)
    # The second client begins at once with the second conversation, and has the third when that has ended.
    assert outcome.requests.arrival_s.tolist() == [0, 4, 0, 1]


def test_a_request_that_arrives_waits_for_a_place_before_it_is_sent() -> None:
    requests = load((0, 4, 3), (0.5, 4, 1), (1, 4, 1), (9, 4, 1))
    outcome = serve(requests, Rules(), lambda *_: 1.0, concurrency=2)
    # The second request ends at 2, with whose place the third is sent, when an iteration has just begun.
    assert outcome.requests.arrival_s.tolist() == [0, 0.5, 2, 9]
    assert outcome.last_token_s.tolist() == [3, 2, 4, 10]


def test_what_a_client_gives_up_is_freed_when_the_iteration_ends() -> None:
    # A runs alone until 6.75, then B from 7, the end of that iteration, to 7.75, then C.
    requests = load((0, 4, 9), (1, 4, 2), (2.5, 4, 1))
    outcome = serve(requests, Rules(max_sequences=1), lambda *_: 1.0, timeout_s=6.75)
    assert outcome.status.tolist() == [TIMED_OUT, TIMED_OUT, COMPLETED]
    assert outcome.iterations.decodes.tolist() == [0, 1, 1, 1, 1, 1, 1, 0, 0]
    assert outcome.iterations.kv_tokens.tolist()[-3:] == [12, 4, 4]
    assert outcome.last_token_s[2] == 9


def test_a_queue_takes_so_many_and_drops_what_waits_too_long() -> None:
    requests = load((0, 4, 3), (0.5, 4, 1), (0.5, 4, 1), (0.5, 4, 1))
    outcome = serve(requests, Rules(max_sequences=1, max_queued=2, queue_s=3.0), lambda *_: 1.0)
    assert outcome.status.tolist() == [COMPLETED, COMPLETED, WAITED, QUEUE_FULL]


def test_a_turn_follows_the_answer_before_it_and_finds_both_in_the_cache() -> None:
    turns = {"session_id": [0, 0], "think_s": [0.0, 2.5]}
    outcome = served(load((0, 8, 5), (0, 16, 1), **turns), "vllm", prefix_cache=True)
    assert outcome.requests.arrival_s.tolist() == [0, 7.5]
    assert outcome.cached_tokens.tolist() == [0, 12]


def test_requests_that_can_never_be_served_are_refused_when_they_arrive() -> None:
    requests = load((0, 30, 1), (0, 15, 3), (0, 4, 4), (0, 4, 4), (0, 4, 4))
    outcome = served(requests, "vllm", blocks=4, context_tokens=20, max_sequences=1, max_concurrent=2)
    assert outcome.status.tolist() == [TOO_LONG, NO_ROOM, 0, 0, NOT_ADMITTED]
    assert np.isnan(outcome.last_token_s).tolist() == [True, True, False, False, True]
