"""Placeholders of gradients: one for each shape of weight in a stage's layers, the head's while it is at work."""

from training_scenarios import training

from sightline.prediction.training.activations import layer_shapes, of_head, of_layers
from sightline.prediction.training.step_profile import predict
from sightline.program import write_out

HIDDEN, WIDTH, QKV, VOCABULARY = 8192, 28672, 8192 + 2 * 1024, 128256


def scenario(version: str = "core", **plan: object):
    fields = {"micro_batch": 1, "framework": "megatron", "framework_version": version, **plan}
    return training(model="llama-3-70b", cluster="8x b200-sxm-180gb", global_batch=8, sequence_length=4096, plan=fields)


def test_layers_share_a_placeholder_for_each_shape() -> None:
    program = write_out(scenario())
    shapes = HIDDEN * QKV + HIDDEN * HIDDEN + HIDDEN * 2 * WIDTH + WIDTH * HIDDEN
    assert of_layers((80.0,), layer_shapes(program), 2.0) == 2.0 * shapes
    assert of_layers((1.0,), layer_shapes(program), 2.0) == 2.0 * shapes
    assert of_layers((0.0,), layer_shapes(program), 2.0) == 0.0


def test_the_head_has_one_of_its_own() -> None:
    assert of_head(write_out(scenario()), 2.0) == 2.0 * HIDDEN * VOCABULARY


def test_tensor_parallel_ranks_hold_their_part() -> None:
    whole, half = (write_out(scenario(tensor_parallel=t)) for t in (1, 2))
    share = of_layers((80.0,), layer_shapes(half), 2.0) / of_layers((80.0,), layer_shapes(whole), 2.0)
    assert share == 0.5


def test_a_framework_without_them_has_none() -> None:
    items = [predict(scenario(version)).stages[0].items["placeholders of gradients"] for version in ("2021", "core")]
    assert items[0] == 0.0 < items[1]
