"""Shell scripts are read as a shell reads them, as far as they are literal."""

import shutil
import subprocess

import pytest

from sightline.errors import InputError
from sightline.launching.shell import LONGEST, command_line, launch_words, looks_like_a_command

SCRIPT = """#!/bin/bash
# A comment with $(nothing) to see.
GPUS=8
NODES=${NNODES:-2}
WORLD=$(($GPUS*NODES))
ARGS=(
  --a 1   # why
  --b "x y"
)
MORE="
   --c 3 \\
   --d ${D:-4}
"
export X=1
%s --n $GPUS --w $WORLD ${ARGS[@]} "${ARGS[@]}" $MORE --e='q' --empty "" --g=$GPUS.$GPUS 2>&1 | cat
"""


def test_launch_words_the_script_itself_are_no_words_of_its_command():
    assert launch_words('torchrun train.py --fast "$@"\n') == ("torchrun", "train.py", "--fast")


def test_a_script_is_read_as_bash_reads_it():
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not there")
    said = subprocess.run(
        [bash, "-c", SCRIPT % "printf '<%s>\\n'"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    words = launch_words(SCRIPT % "torchrun")
    assert [f"<{word}>" for word in words[1:]] == said[:-1]


def test_what_only_running_would_tell_stays_as_written():
    words = launch_words("torchrun --nnodes $NNODES --data $(ls data) train.py --x ${Y:-3}")
    assert words == ("torchrun", "--nnodes", "$NNODES", "--data", "$(ls data)", "train.py", "--x", "3")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("vllm serve x", True),
        ("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun a.py", True),
        ("model: x\nplan: y", False),
        ("plan.yaml", False),
    ],
)
def test_a_command_is_told_from_a_file(text, command):
    assert looks_like_a_command(text) is command


def test_what_is_written_is_read_back():
    options = {"--flag": True, "--path": "a folder/$HOME", "--many": [1, "two words"], "--one": 3}
    written = command_line(["torchrun", "train.py"], options)
    words = launch_words("HOME=here\n" + written)
    assert words[2:] == ("--flag", "--path", "a folder/here", "--many", "1", "two words", "--one", "3")


@pytest.mark.parametrize("sign", [";", "|", "&", "<", ">", "&&", "<<", "; |"])
@pytest.mark.parametrize("array", ["A=(--x {} --y)", "A=({})", "A+=({} --x)", 'A=("{}" {})'])
def test_an_array_ends_whatever_sign_of_the_shell_stands_in_it(array, sign):
    text = f"{array.replace('{}', sign)}\ntorchrun train.py ${{A[@]}}\n"
    assert launch_words(text)[:2] == ("torchrun", "train.py")


@pytest.mark.parametrize("end", ["EOF", "'EOF'", '"EOF"', "-EOF", "EOF > notes.txt", "EOF | tee notes.txt"])
@pytest.mark.parametrize("command", ["cat", "sudo tee /etc/motd", "echo"])
def test_a_text_that_is_printed_is_no_command(command, end):
    text = f"{command} <<{end}\nvllm serve other/model --dtype half\n\tEOF\nvllm serve Qwen/Qwen3-8B\n"
    assert launch_words(text) == ("vllm", "serve", "Qwen/Qwen3-8B")


@pytest.mark.parametrize("begin", ["bash <<EOF", "ssh node <<EOF", "cat <<EOF | bash", "cat <<EOF >run.sh"])
def test_a_text_that_is_run_is_a_command(begin):
    assert launch_words(f"{begin}\nvllm serve Qwen/Qwen3-8B\nEOF\n") == ("vllm", "serve", "Qwen/Qwen3-8B")


@pytest.mark.parametrize("line", ["echo $((1 << N))", "cat <<< EOF", "cat <<EOF"])
def test_a_text_without_an_end_hides_no_command(line):
    assert launch_words(f"{line}\nvllm serve Qwen/Qwen3-8B\n") == ("vllm", "serve", "Qwen/Qwen3-8B")


@pytest.mark.parametrize("sign", [";", "|", "&", "<", ">"])
def test_an_array_that_is_never_closed_ends_with_the_text(sign):
    assert launch_words(f"torchrun train.py\nA=(--x {sign} --y\n") == ("torchrun", "train.py")


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve " + "x" * 500_000,
        'vllm serve "' + "x" * 500_000,
        "vllm serve " + "$" * 200_000,
        "vllm serve " + "${a:-" * 50_000,
        "vllm serve $((" + "1+" * 50_000 + "1))",
        "vllm serve $((" + "(" * 50_000 + "1))",
        "vllm serve m\n" + "cat <<E\n" * 60_000,
        "X=9\n" + "X=$((X*X))\n" * 60 + "vllm serve $X",
    ],
)
def test_a_long_script_is_read_in_time_that_grows_with_its_length(text):
    assert launch_words(text)[:2] == ("vllm", "serve")


@pytest.mark.parametrize(
    "doubled", ["A=$A$A\n", 'A="$A$A"\n', 'A=("${A[@]}" "${A[@]}")\n', "A+=($A)\n", "A=${A:-x}${A:-x}\n"]
)
def test_variables_that_double_each_other_are_refused(doubled):
    with pytest.raises(InputError, match="512 KiB"):
        launch_words("A=xxxxxxxxxx\n" + doubled * 60 + "vllm serve $A")


def test_a_script_beyond_the_limit_is_refused():
    with pytest.raises(InputError, match="512 KiB"):
        launch_words("vllm serve " + "x " * LONGEST)


BRANCHES = """
if [ "$MODE" = a ]; then TP=8; ARGS+=(--one 1 --both x y); else TP=4; ARGS+=(--both z --two 2); fi
case $SIZE in
  7b) L=32; H=64 ;;
  70b|72b) L=80; H=64 ;;
esac
if [ -z "$PORT" ]; then
  PORT=8000
fi
vllm serve model --tp $TP --layers $L --heads $H --port $PORT "${ARGS[@]}"
"""


def test_what_branches_set_differently_is_left_to_a_run():
    assert launch_words(BRANCHES) == (
        *("vllm", "serve", "model", "--tp", "$(8 or 4)", "--layers", "$(32 or 80)", "--heads", "64", "--port", "8000"),
        *("--one", "$(1 or nothing)", "--both", "$(x y or z)", "--two", "$(2 or nothing)"),
    )


@pytest.mark.parametrize(
    ("test", "taken"),
    [
        ('[ "$P" = bf16 ]', "--bf16"),
        ("[[ $P == fp16 ]]", "--fp16"),
        ("[ $N -gt 4 ]", "--bf16"),
        ('[ -z "${E}" ]', "--bf16"),
        ("[ -n ${P} ]", "--bf16"),
        ("[ $1 = bf16 ]", ["--bf16=$(set or nothing)", "--fp16=$(set or nothing)"]),
    ],
)
def test_a_branch_is_taken_where_its_test_is_known(test, taken):
    text = f'P=bf16; N=8; E=\nif {test}; then A=" --bf16"; else A=" --fp16"; fi\ntorchrun a.py $A --x'
    assert launch_words(text) == ("torchrun", "a.py", *([taken] if isinstance(taken, str) else taken), "--x")


def test_the_branch_of_a_case_is_taken_where_its_word_is_known():
    text = "S=70b\ncase $S in\n 7b) L=32;;\n 70b|72b) L=80;;\n *) echo no; exit 1;;\nesac\ntorchrun a.py --layers $L"
    assert launch_words(text)[-1] == "80"
