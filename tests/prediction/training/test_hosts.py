"""A device that waits for its host: passes played out launch by launch."""

from collections.abc import Sequence

import pytest
from training_scenarios import training

from sightline.prediction.training.micro_batch import pipeline_slots
from sightline.prediction.training.priced import Priced, price
from sightline.program import Operator


def small(hidden: int, tensor_parallel: int, micro_batch: int) -> Priced:
    scenario = training(
        model={
            "model_type": "gpt2",
            "hidden_size": hidden,
            "num_hidden_layers": 12,
            "num_attention_heads": hidden // 64,
            "vocab_size": 51200,
            "max_position_embeddings": 1024,
            "tie_word_embeddings": True,
        },
        cluster=f"{tensor_parallel}x a100-sxm-80gb",
        sequence_length=1024,
        global_batch=micro_batch,
        plan={
            "framework": "megatron-deepspeed",
            "attention": "eager",
            "dtype": "fp16",
            "tensor_parallel": tensor_parallel,
            "micro_batch": micro_batch,
        },
    )
    return price(scenario)


def played_s(operators: Sequence[Operator], launch_s: float, priced: Priced) -> float:
    """Return when the last kernel ends: none starts before it was launched, nor before the one before it ended."""
    launched_s = ended_s = 0.0
    for op in operators:
        launched_s += launch_s * float(op.count * (op.kernels + op.host_calls))
        ended_s = max(ended_s, launched_s) + float(op.count * priced.prices[id(op)].time_s)
    return ended_s


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 8])
@pytest.mark.parametrize(("hidden", "tensor_parallel"), [(512, 1), (1024, 1), (1024, 4), (2048, 1), (2048, 2)])
def test_a_pass_takes_what_it_takes_played_out(hidden: int, tensor_parallel: int, micro_batch: int) -> None:
    """A host that launches layers slower than they run has the head launched long before the device comes to it."""
    priced = small(hidden, tensor_parallel, micro_batch)
    program, layers = priced.program, priced.scenario.model.layers
    slot = pipeline_slots(priced.scenario, priced.times, priced.launches).slot
    forward = [*program.embedding.forward, *list(program.layers[0].forward) * layers, *program.head.forward]
    backward = [*program.head.backward, *list(program.layers[0].backward) * layers, *program.embedding.backward]
    assert slot.forward_s == pytest.approx(played_s(forward, float(priced.launches.forward_s), priced), rel=0.04)
    assert slot.backward_s == pytest.approx(played_s(backward, float(priced.launches.backward_s), priced), rel=0.04)
