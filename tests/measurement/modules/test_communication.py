"""Everything that fully sharded data parallelism does in a step is seen, in order, and can be left alone again."""

from functools import wraps

import pytest

from sightline.measurement.modules.wrapping import OF_STATES, OF_UNITS, wrap_sharding

torch = pytest.importorskip("torch")


@pytest.fixture
def sharded(tmp_path):
    """Two linear layers, each a unit, in a unit of their own; a group of one rank."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    for layer in model:
        fully_shard(layer)
    yield fully_shard(model)
    dist.destroy_process_group()


def step(model) -> None:
    model(torch.ones(2, 4)).sum().backward()


def test_every_unit_is_seen_until_the_stack_is_closed(sharded) -> None:
    seen: list[str] = []

    def around(call):
        @wraps(call)
        def noted(*args, **kwargs):
            seen.append(call.__name__)
            return call(*args, **kwargs)

        return noted

    with wrap_sharding(sharded, around):
        step(sharded)
    assert {*OF_UNITS, *OF_STATES} >= set(seen) >= {*OF_UNITS, "_root_post_backward_final_callback"}
    # The root has no parameters of its own, so that it is no unit.
    assert seen.count("post_backward") == 2
    assert seen.index("pre_forward") < seen.index("pre_backward") < seen.index("post_backward")
    before = len(seen)
    step(sharded)
    assert len(seen) == before


def test_wrapped_twice_it_is_unwrapped_one_by_one(sharded) -> None:
    seen: list[str] = []

    def noting(name):
        return lambda call: lambda *args, **kwargs: (seen.append(name), call(*args, **kwargs))[1]

    wrap_sharding(sharded, noting("outer first"))
    with wrap_sharding(sharded, noting("inner")):
        step(sharded)
    assert {"inner", "outer first"} == set(seen)
    seen.clear()
    step(sharded)
    assert set(seen) == {"outer first"}


def test_a_plain_model_stays_as_it_is() -> None:
    model = torch.nn.Linear(2, 2)
    names = set(vars(model))
    with wrap_sharding(model, lambda call: pytest.fail("nothing to wrap")):
        model(torch.ones(1, 2))
    assert set(vars(model)) == names
