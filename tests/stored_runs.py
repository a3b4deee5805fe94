"""A store with what people keep: a step of training measured twice, one that failed, and operators."""

import sightline as sl
from sightline.runs import open_store

TRAINING = {
    "name": "a small step",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
    "plan": {"framework": "deepspeed", "zero_stage": 2},
}


def filled(place):
    """A store at a place, with four runs; the ids of the two of training, the older one first."""
    store = open_store(str(place))
    writer = store.begin("matmul", suite="standard", scenario={"workload": {"task": "operator"}})
    writer.sample({"time_s": 0.5})
    writer.finish(result={"time_s": 0.5}, rows=[{"operator": "matmul", "time_s": 0.5}])
    store.begin("too large").finish(status="out_of_memory", reason="it held 9 GB of the 8 GB it may take", output="no!")
    predicted = sl.predict(sl.load(TRAINING))
    ids = []
    for name, slower in (("a small step", 1.5), ("a faster step", 1.2)):
        result = predicted.replace(source="measured", step_time_s=slower * predicted.step_time_s).to_dict()
        scenario = result.pop("scenario")
        environment = {"gpus": [{"name": "A800", "memory_bytes": 80 * 2**30, "driver": "550.1"}] * 8}
        writer = store.begin(name, scenario=scenario)
        writer.finish(result=result, rows=predicted.table.to_dicts(), environment=environment)
        ids.append(writer.run.id)
    return store, ids
