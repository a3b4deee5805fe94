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
