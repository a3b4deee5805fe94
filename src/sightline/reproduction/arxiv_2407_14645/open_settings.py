"""What the source leaves open: each setting with its choices, the likeliest first.

It compares nodes under one mapping, its ancestor DeepFlow scales by equal factors, and its devices are ideal ones.
"""

from sightline.exploration.nodes.times import ONE_PLAN
from sightline.reproduction.open_settings import OpenSetting

VIEW: OpenSetting[str] = OpenSetting(
    name="view of the devices", choices={"ideal view": "ideal", "calibrated view": "calibrated"}
)
PLAN: OpenSetting[str] = OpenSetting(
    name="plan at technology nodes",
    choices={"one plan at all nodes": ONE_PLAN, "the plan searched again at each node": "training"},
)
"""By the task of the study of nodes."""
SCALING: OpenSetting[str] = OpenSetting(
    name="scaling from node to node",
    choices={"equal factors at each step": "ideal", "foundries' claims": "vendor"},
)
