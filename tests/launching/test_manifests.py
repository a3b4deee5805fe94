"""Kubernetes, Helm and Compose files are read as the servers that their containers start."""

import pytest

from sightline.errors import InputError
from sightline.launching.registry import read

TWO_DOCUMENTS = """
apiVersion: apps/v1
kind: Deployment
spec:
  replicas: 2
  template:
    spec:
      initContainers: [{name: first, image: busybox, command: [sh, -c, "true"]}]
      containers:
      - {name: proxy, image: nginx}
      - name: vllm
        image: vllm/vllm-openai:v0.15.0
        env: [{name: TP, value: "4"}, {name: TOKEN, valueFrom: {secretKeyRef: {name: token}}}]
        command: [vllm, serve, Qwen/Qwen3-32B]
        args: [--tensor-parallel-size, $(TP), --max-num-seqs, "64", --port, "8080"]
---
apiVersion: v1
kind: Service
spec: {ports: [{port: 8000}]}
"""
COMPOSE = """
services:
  llm:
    image: vllm/vllm-openai:v0.11.0
    command: >
      --model Qwen/Qwen3-32B --tensor-parallel-size 4
      --max-num-seqs 64
    environment: [HF_TOKEN=secret]
    deploy: {replicas: 2}
"""
LEADERS = """
kind: LeaderWorkerSet
spec:
  replicas: 2
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
        - image: vllm/vllm-openai:latest
          command: [bash, -c]
          args: ["start-ray leader; python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-32B --max-num-seqs 64
            --tensor-parallel-size 4 --pipeline_parallel_size 1"]
    workerTemplate:
      spec:
        containers: [{image: "vllm/vllm-openai:latest", command: [bash, -c], args: ["start-ray worker"]}]
"""


@pytest.mark.parametrize("text", [TWO_DOCUMENTS, COMPOSE, LEADERS])
def test_servers_of_containers_are_read(text):
    found = read(text).scenario
    assert found["model"] == "qwen3-32b"
    plan = found["plan"]
    assert (plan["framework"], plan["tensor_parallel"], plan["max_sequences"]) == ("vllm", 4, 64)
    assert plan["replicas"] == 2


DYNAMO = """
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {replicas: 1, extraPodSpec: {mainContainer: {image: frontend}}}
    Decode:
      replicas: 2
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-32B, --tensor-parallel-size, "4", --is-decode-worker]
    Prefill:
      replicas: 3
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.vllm]
          args: [--model, Qwen/Qwen3-32B, --is-prefill-worker]
"""
LLM_D = """
modelArtifacts: {name: Qwen/Qwen3-32B}
decode:
  replicas: 2
  parallelism: {tensor: 4}
  containers:
  - {modelCommand: vllmServe, image: llm-d, args: [--kv-transfer-config, '{"kv_role":"kv_both"}', --block-size, "128"]}
prefill:
  replicas: 3
  parallelism: {tensor: 1}
  containers: [{modelCommand: vllmServe, image: llm-d}]
"""


@pytest.mark.parametrize("text", [DYNAMO, LLM_D])
def test_servers_of_one_role_make_up_a_disaggregated_plan(text):
    found = read(text).scenario
    assert found["model"] == "qwen3-32b"
    pools = found["plan"]["disaggregate"]
    assert pools["decode"] == {"tensor_parallel": 4, "replicas": 2}
    assert (pools["prefill"]["tensor_parallel"], pools["prefill"]["replicas"]) == (1, 3)


def test_replicas_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="replicas is 1000000"):
        read(TWO_DOCUMENTS.replace("replicas: 2", "replicas: 1000000"))


def test_containers_that_serve_nothing_are_of_no_framework():
    with pytest.raises(InputError, match="no framework"):
        read("services: {web: {image: nginx, command: [nginx]}}\nname: x\n")


POOLS = """
kind: StormService
spec:
  template:
    spec:
      roles:
      - {name: router, replicas: 1, template: {spec: {containers: [{image: sglang-router, command: [route]}]}}}
      - name: prefill
        replicas: 3
        template: {spec: {containers: [{image: vllm, command: [sh, -c], args: ["
          vllm serve Qwen/Qwen3-32B
          --port \\"8000\\" --tensor-parallel-size 4
          --kv-transfer-config '{\\"kv_connector\\":\\"NixlConnector\\",\\"kv_role\\":\\"kv_both\\"}'"]}]}}
      - name: decode
        replicas: 2
        template: {spec: {containers: [{image: vllm, command: [sh, -c], args: ["
          vllm serve Qwen/Qwen3-32B
          --port \\"8000\\" --tensor-parallel-size 4
          --kv-transfer-config '{\\"kv_connector\\":\\"NixlConnector\\",\\"kv_role\\":\\"kv_both\\"}'"]}]}}
"""
KSERVE = """
kind: LLMInferenceService
spec:
  model: {uri: "hf://Qwen/Qwen3-32B", name: mine, lora: {adapters: [{name: sql, uri: "hf://a/b"}]}}
  parallelism: {tensor: 4, data: 2, dataLocal: 1}
  replicas: 2
  template: {containers: [{name: main, image: "vllm/vllm-openai:v0.15.0", args: [--model, /mnt/models]}]}
  worker: {containers: [{name: main, image: "vllm/vllm-openai:v0.15.0", args: [--model, /mnt/models]}]}
"""


def test_roles_are_those_of_what_is_deployed():
    found = read(POOLS)
    prefill, decode = (found.scenario["plan"]["disaggregate"][role] for role in ("prefill", "decode"))
    assert (prefill["replicas"], prefill["tensor_parallel"]) == (3, 4)
    assert (decode["replicas"], decode["tensor_parallel"]) == (2, 4)
    assert not found.unread


@pytest.mark.parametrize("labels", ["subComponentType: {}", "metadata: {{labels: {{llm-d.ai/role: {}}}}}"])
def test_a_worker_is_in_the_role_that_its_labels_say(labels):
    worker = "image: a, command: [python3, -m, dynamo.vllm], args: [--model, Qwen/Qwen3-32B]"
    pools = "".join(f"- {{{labels.format(role)}, pod: {{{worker}}}}}\n" for role in ("prefill", "decode"))
    assert set(read(f"services:\n{pools}").scenario["plan"]["disaggregate"]) == {"prefill", "decode"}


def test_a_service_of_kserve_serves_its_model():
    found = read(KSERVE)
    plan = found.scenario["plan"]
    assert found.scenario["model"] == "qwen3-32b"
    assert (plan["tensor_parallel"], plan["data_parallel"], plan["replicas"]) == (4, 2, 2)
    assert found.unread == ["--enable-lora"]


def test_pools_of_kserve_are_its_roles():
    apart = "kind: LLMInferenceService\nspec:\n  model: {uri: 'hf://Qwen/Qwen3-32B'}\n  replicas: 2\n"
    plan = read(f"{apart}  prefill: {{replicas: 3, parallelism: {{tensor: 2}}}}\n").scenario["plan"]["disaggregate"]
    assert (plan["prefill"]["tensor_parallel"], plan["prefill"]["replicas"], plan["decode"]["replicas"]) == (2, 3, 2)


def test_workers_join_the_server_of_their_leader():
    pods = [
        f"{kind}: {{spec: {{containers: [{{image: a, command: [python3, -m, sglang.launch_server, --model-path, "
        f"Qwen/Qwen3-32B, --tp, '8', --nnodes, $(SIZE), --node-rank, $(RANK)]}}]}}}}"
        for kind in ("leaderTemplate", "workerTemplate")
    ]
    found = read(
        f"kind: LeaderWorkerSet\nspec: {{replicas: 2, leaderWorkerTemplate: {{size: 2, {', '.join(pods)}}}}}\n"
    )
    assert (found.scenario["plan"]["tensor_parallel"], found.scenario["plan"]["replicas"]) == (8, 2)


def test_an_image_alone_starts_no_server_that_is_known():
    with pytest.raises(InputError, match="no framework"):
        read("spec:\n  container: {image: 'vllm/vllm-openai:v0.15.0'}\nserver: {tensor-parallel-size: 8}\n")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("applications:\n- {import_path: 'ray.serve.llm:build_openai_app'}\n", "Ray Serve"),
        ("kind: InferenceService\nspec: {predictor: {model: {args: [--model_id=a]}}}\n", "KServe"),
        ("servingEngineSpec:\n  modelSpec: []\n", "production stack"),
        ("backend: {type: vllm}\nhealth_check: {}\nsbatch_directives: {}\n", "srt-slurm"),
        ("meta: {}\nmodel: {}\nvariants: {}\nfeatures: {}\n", "recipes"),
        ("model: a\ntensor-parallel-size: 8\nmax-num-seqs: 4\n", "--config"),
    ],
)
def test_files_of_other_tools_are_refused_by_name(text, tool):
    with pytest.raises(InputError, match=tool):
        read(text)


SGLANG = "{image: lmsysorg/sglang, command: [python3, -m, sglang.launch_server, --model-path, Qwen/Qwen3-32B]}"
OTHERS = [
    (SGLANG, "SGLang"),
    ("{image: ghcr.io/huggingface/text-generation-inference, command: [--model-id, Qwen/Qwen3-32B]}", "TGI"),
]


@pytest.mark.parametrize(("other", "tool"), OTHERS)
def test_servers_of_several_engines_are_refused(other, tool):
    own = "{image: vllm/vllm-openai, command: [vllm, serve, Qwen/Qwen3-32B]}"
    pods = [f"kind: Deployment\nspec: {{template: {{spec: {{containers: [{one}]}}}}}}\n" for one in (own, other)]
    for text in (f"services:\n  a: {own}\n  b: {other}\n", "---\n".join(pods)):
        with pytest.raises(InputError, match=f"vLLM and {tool}"):
            read(text)


def test_servers_of_one_script_are_of_one_engine():
    servers = ("vllm serve Qwen/Qwen3-32B &", "python -m sglang.launch_server --model-path Qwen/Qwen3-32B &", "wait\n")
    with pytest.raises(InputError, match="vLLM and SGLang"):
        read("\n".join(servers))


@pytest.mark.parametrize("command", ["command: [--model, a/b]", "args: [--model, a/b]", "command: [vllm, serve, a/b]"])
@pytest.mark.parametrize(
    "stated",
    [
        "environment: {VLLM_USE_DEEP_GEMM: 1}",
        "environment: [VLLM_USE_DEEP_GEMM=1]",
        "env: [{name: VLLM_USE_DEEP_GEMM, value: '1'}]",
        "env: [{name: VLLM_USE_DEEP_GEMM, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
    ],
)
def test_variables_of_a_container_are_those_of_its_server(command, stated):
    assert read(f"services:\n  a: {{image: vllm/vllm-openai, {command}, {stated}}}\n").unread == ["VLLM_USE_DEEP_GEMM"]


def test_variables_that_stand_for_options_of_an_image_are_read():
    stated = "{MODEL_ID: Qwen/Qwen3-32B, NUM_SHARD: 4, QUANTIZE: fp8}"
    found = read(f"services:\n  a: {{image: huggingface/text-generation-inference, environment: {stated}}}\n").scenario
    assert (found["model"], found["plan"]["tensor_parallel"]) == ("qwen3-32b", 4)
    assert found["plan"]["quantization"] == ["fp8"]


def test_a_container_has_no_variable_of_another():
    serve = "vllm serve Qwen/Qwen3-32B -tp ${TP:-2}"
    for first in (f"command: [sh, -c, '{serve}'], environment: {{TP: 4}}", f"command: [sh, -c, 'TP=4; {serve}']"):
        found = read(f"services:\n  a: {{{first}}}\n  b: {{command: [sh, -c, '{serve}']}}\n")
        assert any("servers differ" in said for said in found.without_counterpart)
        assert "plan.tensor_parallel" not in found.missing
