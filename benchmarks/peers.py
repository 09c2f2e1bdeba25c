"""What other load testers report of a server whose TTFT is 200 ms and whose ITL is 20 ms: `make bench-peers`.

Each peer gets a virtual environment of its own below ``benchmarks/.peers`` (AIPerf 1.2 GB, GuideLLM 4.6 GB), a tokenizer of
single bytes made on the spot (none is downloaded), the truth server's own address, and the clients' core. loadgen runs in the
same round. What is compared is the TTFT that each one tells its user, against the truth, and the CPU it took to say so.

    peers.py [--peers aiperf,guidellm,locust] [--streams 100,500]
"""

import argparse
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import CLIENT_CORE, HERE, build, truth_server

VENVS = HERE / ".peers"
TTFT_MS, ITL_MS, EVENTS = 200, 20, 50
ROUNDS = 5  # streams of each slot
TOKENIZER = """
import json, pathlib, sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[]))
made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
made.save(str(folder / "tokenizer.json"))
(folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
"""


def venv(name: str) -> Path:
    """The peer's own environment, made when first asked for."""
    folder = VENVS / name
    if not (folder / "bin" / name).exists():
        print(f"installing {name} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", name], check=True)
    return folder / "bin"


def tokenizer(python: Path, folder: Path) -> Path:
    subprocess.run([python, "-c", TOKENIZER, folder / "tokenizer"], check=True)
    return folder / "tokenizer"


def run(*command: object, cwd: Path) -> float:
    """On the clients' core; its CPU seconds, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["taskset", "-c", str(CLIENT_CORE), *map(str, command)], cwd=cwd, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


Told = tuple[float, float, float]  # TTFT p50 and p99 in ms, CPU seconds


def loadgen(url: str, streams: int, folder: Path) -> Told:
    seconds = ROUNDS * (TTFT_MS + ITL_MS * EVENTS) / 1000
    (folder / "w.yaml").write_text(
        f'loadgen: 1\ntarget: {{url: "{url}/v1/chat/completions"}}\nload: [{{hold: {seconds}s, streams: {streams}}}]\n'
    )
    command = [sys.executable, "-m", "loadgen", "run", "w.yaml", "--quiet", "--out", folder / "out", "--processes", 1]
    cpu_s = run(*command, cwd=folder)
    told = json.loads((folder / "out" / "summary.json").read_text())["metrics"]["ttft"]
    return told["p50_ms"], told["p99_ms"], cpu_s


def aiperf(url: str, streams: int, folder: Path) -> Told:
    tools = venv("aiperf")
    cpu_s = run(
        tools / "aiperf", "profile", "-m", "truth", "--tokenizer", tokenizer(tools / "python", folder),
        "--endpoint-type", "chat", "--streaming", "--url", url, "--concurrency", streams, "--request-count", streams * ROUNDS,
        "--synthetic-input-tokens-mean", 20, "--artifact-dir", folder / "out", "--ui", "none", cwd=folder,
    )  # fmt: skip
    told = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())["time_to_first_token"]
    return told["p50"], told["p99"], cpu_s


def guidellm(url: str, streams: int, folder: Path) -> Told:
    tools = venv("guidellm")
    made = tokenizer(tools / "python", folder)
    cpu_s = run(
        tools / "guidellm", "run", "--disable-progress", "--backend", f"kind=openai_http,target={url},model=truth",
        "--profile", f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={streams * ROUNDS}",
        "--tokenizer", f"kind=hf_auto,model={made}", "--data", f"kind=synthetic_text,prompt_tokens=20,output_tokens={EVENTS}",
        "--output", f"kind=json,path={folder / 'told.json'}", cwd=folder,
    )  # fmt: skip
    told = json.loads((folder / "told.json").read_text())["benchmarks"][0]["metrics"]["time_to_first_token_ms"]
    shares = told["successful"]["percentiles"]
    return shares["p50"], shares["p99"], cpu_s


def locust(url: str, streams: int, folder: Path) -> Told:
    tools = venv("locust")
    seconds = round(ROUNDS * (TTFT_MS + ITL_MS * EVENTS) / 1000)
    cpu_s = run(
        tools / "locust", "-f", HERE / "locustfile.py", "--headless", "-u", streams, "-r", streams, "-t", f"{seconds}s",
        "--host", url, "--csv", folder / "locust", "--only-summary", cwd=folder,
    )  # fmt: skip
    with (folder / "locust_stats.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["Name"] == "ttft")
    return float(row["50%"]), float(row["99%"]), cpu_s


PEERS: dict[str, Callable[[str, int, Path], Told]] = {f.__name__: f for f in (loadgen, aiperf, guidellm, locust)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="aiperf,guidellm,locust")
    parser.add_argument("--streams", default="100,500")
    options = parser.parse_args()
    os.environ.update(TTFT_US=str(TTFT_MS * 1000), ITL_US=str(ITL_MS * 1000), N=str(EVENTS))
    print(f"true TTFT {TTFT_MS} ms, ITL {ITL_MS} ms, {EVENTS} events a stream")
    with tempfile.TemporaryDirectory() as build_folder, truth_server(build(Path(build_folder), "truth_server")) as port:
        for streams in map(int, options.streams.split(",")):
            for name in ("loadgen", *options.peers.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        p50, p99, cpu_s = PEERS[name](f"http://127.0.0.1:{port}", streams, Path(folder))
                    except (RuntimeError, OSError, KeyError, ValueError) as error:
                        print(f"{streams:5} streams  {name:9} failed: {str(error)[-600:]}", flush=True)
                        continue
                print(
                    f"{streams:5} streams  {name:9} ttft p50 {p50:6.0f} ms  p99 {p99:6.0f} ms  {cpu_s:6.1f} s of CPU",
                    flush=True,
                )


if __name__ == "__main__":
    if shutil.which("taskset") is None:
        sys.exit("needs taskset (util-linux) and gcc")
    main()
