"""Answers of studies as they are, one for each kind of figure."""

import itertools

import numpy as np

from sightline.exploration.study_answer import Column, Figure, StudyAnswer

NODES = ("12 nm", "7 nm", "5 nm", "3 nm", "2 nm", "1 nm")
MEMORIES = ("HBM2", "HBM2E", "HBM3", "HBM4")
LEVELS = {"compute": "compute", "dram": "DRAM", "l2": "L2", "network": "network", "host": "host"}
ABOUT = {
    **{f"{level}_s": Column(label=name, unit="s") for level, name in LEVELS.items()},
    "step_time_s": Column(label="step time", unit="s"),
    "bound_level": Column(label="bound by", values=LEVELS),
    "energy_per_step_j": Column(label="energy of a step", unit="J"),
    "cluster.device.memory_bandwidth": Column(label="memory bandwidth", unit="B/s"),
    "cluster.device.peak_flops": Column(label="peak FLOP/s", unit="FLOP/s"),
    "tokens_per_s": Column(label="throughput", unit="tokens/s"),
    "mfu": Column(label="MFU", unit="share"),
    "memory_bytes.total": Column(label="memory", unit="B"),
    "year": Column(label="launched", unit="year"),
    "price_usd": Column(label="price", unit="USD"),
    "peak_flops": Column(label="peak", unit="FLOP/s"),
    "flops_per_s_per_usd": Column(label="FLOP/s", unit="FLOP/s", per="per USD"),
}


def nodes():
    """Step times by node and memory, with what they are made of."""
    rows = list(itertools.product(MEMORIES, NODES))
    node = np.array([NODES.index(one) for _, one in rows])
    memory = np.array([MEMORIES.index(one) for one, _ in rows])
    parts = {
        "compute_s": 20.0 * 0.55**node,
        "dram_s": 6.0 * 0.6**memory + 0.0 * node,
        "l2_s": 0.5 * 0.8**node,
        "network_s": np.full(len(rows), 2.5),
        "host_s": np.full(len(rows), 0.1),
    }
    times = np.sum(list(parts.values()), axis=0)
    binding = np.argmax([parts["compute_s"], parts["dram_s"], parts["network_s"]], axis=0)
    bound = np.array(["compute", "dram", "network"])[binding]
    levels = tuple(parts)
    return StudyAnswer(
        study="technology-nodes",
        title="Training GPT-3 175B on devices of 12 nm to 1 nm",
        axes={"node": NODES, "memory": MEMORIES},
        about=ABOUT,
        columns={
            "memory": [one for one, _ in rows],
            "node": [one for _, one in rows],
            "step_time_s": times,
            **parts,
            "bound_level": bound,
            "energy_per_step_j": times * 5e5,
        },
        shown=("memory", "node", "step_time_s", "bound_level", "energy_per_step_j"),
        reading=(
            "With HBM2 the step takes 28.6 s at 12 nm and 9.87 s at 1 nm: logic alone gains 2.9 times, 2.4 of them before 3 nm.",
            "At 3 nm the bound moves from compute to DRAM, with HBM4 to the network.",
        ),
        assumptions=("The ideal view: 0.95 of peak and bandwidth, no launches.", "All devices have 826 mm2 and 400 W."),
        figures=(
            Figure(
                kind="lines", title="Time of a step", x="node", y="step_time_s", series="memory", log=frozenset("y")
            ),
            Figure(kind="stacks", title="Where the time goes", x="node", y=levels, panel="memory"),
            Figure(kind="map", title="What binds", x="node", y="memory", series="bound_level"),
        ),
    )


def factors():
    """A gain in two views as a product."""
    named = ("precision", "memory capacity", "memory bandwidth", "interconnect", "domain size", "overlap")
    values = {"ideal": (6.5, 1.4, 1.1, 1.35, 1.6, 0.95), "calibrated": (3.8, 1.3, 1.15, 1.3, 1.5, 0.9)}
    rows = [(view, name, value) for view, all_ in values.items() for name, value in zip(named, all_, strict=True)]
    view, factor, value = zip(*rows, strict=True)
    return StudyAnswer(
        study="a100-to-b200",
        title="From A100 to B200: the gain of a GPT-3 training step, factor by factor",
        axes={"view": ("ideal", "calibrated")},
        about=ABOUT,
        columns={"view": view, "factor": factor, "gain": value},
        summary={"gain": 35.1},
        reading=("In the ideal view the gain is 20.5.",),
        figures=(Figure(kind="factors", title="Factors of the gain", x="factor", y="gain", panel="view"),),
    )


def tornado():
    """Elasticities, not sorted."""
    named = {
        "memory bandwidth": -0.42,
        "peak FLOP/s": -0.35,
        "link bandwidth": -0.21,
        "latency": 0.02,
        "launches": 0.004,
    }
    return StudyAnswer(
        study="own",
        title="What a step depends on",
        axes={"cluster.device.memory_bandwidth": (1e12, 2e12)},
        about=ABOUT,
        columns={"number": list(reversed(named)), "elasticity": list(reversed(named.values()))},
        figures=(Figure(kind="tornado", title="Elasticities of the step time", x="number", y="elasticity"),),
    )


def grid(count=9):
    """A rate over two axes with the level that binds and the gain over the base."""
    bandwidths, peaks = np.geomspace(1e12, 16e12, count), np.geomspace(2e14, 8e15, count)
    b, p = (one.ravel() for one in np.meshgrid(bandwidths, peaks, indexing="ij"))
    time = 1e14 / p + 4e11 / b
    return StudyAnswer(
        study="own",
        title="Peak and bandwidth of a device",
        axes={"cluster.device.memory_bandwidth": bandwidths, "cluster.device.peak_flops": peaks},
        about=ABOUT,
        columns={
            "cluster.device.memory_bandwidth": b,
            "cluster.device.peak_flops": p,
            "tokens_per_s": 4096 / time,
            "gain": 0.3 / time,
            "bound_level": np.where(1e14 / p > 4e11 / b, "compute", "dram"),
        },
        figures=(
            Figure(
                kind="map",
                title="Throughput",
                x="cluster.device.memory_bandwidth",
                y="cluster.device.peak_flops",
                series="tokens_per_s",
            ),
            Figure(
                kind="map",
                title="Gain over an A100",
                x="cluster.device.memory_bandwidth",
                y="cluster.device.peak_flops",
                series="gain",
                break_even=1.0,
            ),
            Figure(
                kind="map",
                title="What binds where",
                x="cluster.device.memory_bandwidth",
                y="cluster.device.peak_flops",
                series="bound_level",
            ),
        ),
    )


def trends():
    """Prices by year."""
    rows = [(2006.83, "GeForce 8800 GTX", 599, 0.3456e12), (2012.17, "GTX 680", 499, 3.09e12)]
    rows += [
        (2017.33, "V100", 10664, 125e12),
        (2020.33, "A100", 12500, 312e12),
        (2022.67, "RTX 4090", 1599, 165e12),
    ]
    rows += [(2022.75, "H100", 30000, 989e12), (2025.00, "RTX 5090", 1999, 209e12)]
    year, device, usd, flops = zip(*rows, strict=True)
    usage = ["data center" if one in ("V100", "A100", "H100") else "desktop" for one in device]
    return StudyAnswer(
        study="trends",
        title="What a dollar bought since 2006",
        axes={"device": device},
        about=ABOUT,
        columns={
            "device": device,
            "year": year,
            "use": usage,
            "price_usd": usd,
            "peak_flops": flops,
            "flops_per_s_per_usd": np.array(flops) / np.array(usd),
        },
        figures=(
            Figure(
                kind="points",
                title="Peak per dollar",
                x="year",
                y="flops_per_s_per_usd",
                series="use",
                log=frozenset("y"),
            ),
            Figure(kind="bars", title="Price of a device", x="device", y="price_usd", series="use"),
        ),
    )


def scaling():
    """Throughput per device to 100,000 of them."""
    counts = 2 ** np.arange(3, 18)
    rows = [(mode, int(n)) for mode in ("strong", "weak") for n in counts]
    lost = {"strong": 3e-4, "weak": 1e-5}
    return StudyAnswer(
        study="scaling",
        title="Scaling to 131,072 devices",
        axes={"devices": counts},
        about=ABOUT,
        columns={
            "mode": [mode for mode, _ in rows],
            "devices": [n for _, n in rows],
            "tokens_per_s": [n * 400 / (1 + n * lost[mode]) for mode, n in rows],
            "mfu": [0.5 / (1 + n * lost[mode]) for mode, n in rows],
            "memory_bytes.total": [60e9 / n**0.2 for _, n in rows],
        },
        figures=(
            Figure(
                kind="lines",
                title="Throughput",
                x="devices",
                y="tokens_per_s",
                series="mode",
                log=frozenset(("x", "y")),
            ),
            Figure(kind="lines", title="Utilization", x="devices", y="mfu", series="mode", log=frozenset("x")),
        ),
    )
