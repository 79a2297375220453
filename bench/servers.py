"""`tensora serve` beside llama-server on the CPU: the same file, the same clients, the same threads, by turns.

usage: python3 bench/servers.py MODEL.gguf... [--make SHAPE:TYPE ...] [--ladder 1,16,64] [-p 16] [-g 64] [-t 2] [--rounds 2]

llama-server is found on PATH or named by --llama-server. Both servers answer one prompt greedily first, and the texts must be
equal; --make writes files with random weights (bench/llama_cpp.py), for which only the speeds are compared. Then
`tensora bench serve` sends both the same closed loop of requests. Each round measures one server after the other on a
server of its own; the table has each side's best round by throughput, and its processor time per token.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import llama_cpp

START_LIMIT = 120  # seconds until a server must answer


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(url, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=START_LIMIT) as answer:
        return json.loads(answer.read() or b"{}")


def commands(path, options):
    """The two servers, with a place for every stream and a context that holds its prompt and its answer."""
    streams = max(options.streams)
    context = options.input_len + options.output_len + 16
    return {
        "tensora": [options.tensora, "serve", path, "--parallel", str(streams), "-c", str(context), "--threads",
                    str(options.threads), "--device", "cpu", "--no-log"],
        "llama.cpp": [options.llama_server, "-m", path, "--parallel", str(streams), "-c", str(context * streams),
                      "--threads", str(options.threads), "--no-webui"],
    }


@contextlib.contextmanager
def running(command):
    port = free_port()
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_LIMIT
        while True:
            if server.poll() is not None:
                sys.exit(f"{command[0]} ended with status {server.returncode}: run it by hand, {' '.join(command)}")
            with contextlib.suppress(OSError):
                ask(url + "/health")
                break
            if time.monotonic() > end:
                sys.exit(f"{command[0]} did not answer within {START_LIMIT} s")
            time.sleep(0.1)
        yield url, server.pid
    finally:
        server.terminate()
        server.wait()


def greedy(url, options):
    answer = ask(url + "/v1/completions",
                 {"model": ask(url + "/v1/models")["data"][0]["id"], "prompt": options.prompt, "max_tokens": 48,
                  "temperature": 0})
    return answer["choices"][0]["text"]


def texts_agree(path, options):
    """Whether both servers continue a prompt alike; None where that cannot be told."""
    if os.path.basename(path).startswith("random-"):
        return None
    texts = []
    for command in commands(path, options).values():
        with running(command) as (url, _):
            texts.append(greedy(url, options))
    return texts[0] == texts[1]


def measure(command, options):
    with running(command) as (url, pid):
        load = [options.tensora, "bench", "serve", url, "--ladder", options.ladder, "-p", str(options.input_len), "-g",
                str(options.output_len), "--pid", str(pid), "--json"]
        return json.loads(subprocess.run(load, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = llama_cpp.model_arguments(__doc__)
    parser.add_argument("--llama-server", default=shutil.which("llama-server"))
    parser.add_argument("--ladder", default="1,16,64", help="numbers of streams at once")
    parser.add_argument("-p", "--input-len", type=int, default=16)
    parser.add_argument("-g", "--output-len", type=int, default=64)
    options = parser.parse_args()
    if not options.llama_server:
        sys.exit("llama-server is not on PATH: name it by --llama-server")
    options.streams = [int(n) for n in options.ladder.split(",")]
    report, (paths, wrong) = [], llama_cpp.comparable(options, texts_agree, with_vocabulary=True)
    print("| model | streams | server | done / failed | tokens/s | TTFT p50 / p99 ms | TPOT p50 ms | CPU µs/token | RSS MiB |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
    for path in paths:
        name, best = os.path.splitext(os.path.basename(path))[0], {}
        for _ in range(options.rounds):
            for server, command in commands(path, options).items():
                for streams, row in zip(options.streams, measure(command, options)):
                    before = best.get((streams, server))
                    if before is None or row["output_throughput"] > before["output_throughput"]:
                        best[streams, server] = row
        for (streams, server), row in sorted(best.items(), key=lambda item: item[0][0]):
            report.append({"model": name, "streams": streams, "server": server, "row": row})
            per_token = 1e6 * row["server_cpu_seconds"] / max(row["total_output_tokens"], 1)
            print(f"| {name} | {streams} | {server} | {row['completed']} / {row['failed']} | {row['output_throughput']:,.0f} | "
                  f"{row['p50_ttft_ms']:.1f} / {row['p99_ttft_ms']:.1f} | {row['p50_tpot_ms']:.2f} | {per_token:.0f} | "
                  f"{row['server_rss_most_bytes'] / 2**20:.0f} |", flush=True)
    llama_cpp.finish(report, wrong, options)


if __name__ == "__main__":
    main()
