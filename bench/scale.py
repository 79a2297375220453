"""Compares what `tensora scale` predicts for ranks of this host with what `tensora train lm` then does.

Links and contention are measured with two ranks, computation is fitted to one rank's throughput, as --measured does. The
other rows are predictions. A rank has one thread; more ranks than cores say nothing.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TENSORA_")}
    return {**kept, "TENSORA_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, env=environment())
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.rounds = arguments, folder, 0
        self.cli = Path(arguments.build) / "bin" / "tensora"
        self.text = folder / "text.txt"
        self.text.write_text("".join(f"the number {i * i % 9973} follows {i}.\n" for i in range(40000)))

    def launch(self, ranks):
        return [self.cli, "launch", "-n", ranks, "--threads", 1, "--backend", self.arguments.backend, "--"]

    def train(self, ranks, layout):
        """Tokens per second of all ranks in a run, without its first steps."""
        self.rounds += 1
        out = self.folder / f"run-{self.rounds}"
        a = self.arguments
        run(*self.launch(ranks), self.cli, "train", "lm", "--parallel", layout, "--text", self.text, "--out", out,
            "--tokenizer", "bytes", "--width", a.width, "--heads", 4, "--kv-heads", 4, "--layers", a.layers, "--hidden",
            3 * a.width, "--context", a.context, "--batch", a.batch, "--steps", a.steps,
            "--sample-tokens", 0, "--validate-batches", 0, "--checkpoint-every", 0)
        rows = [entry for entry in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
                if "loss/train" in entry]
        rows = rows[len(rows) // 3:]
        steps, seconds = rows[-1]["step"] - rows[0]["step"], rows[-1]["wall"] - rows[0]["wall"]
        return ranks * a.batch * a.context * steps / seconds, out / "model" / "config.json"

    def predict(self, machine, config, layout, alone):
        a = self.arguments
        rows = json.loads(run(self.cli, "scale", "--machine", machine, "--model", config, "--dtype", "float32", "--context",
                              a.context, "--batch", a.batch, "--parallel", layout, "--ranks",
                              ",".join(map(str, [1, *a.ranks])), "--measured", f"1:{alone}", "--json"))
        return {row["ranks"]: row for row in rows["predictions"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--backend", default="mpi", choices=["mpi", "local"])
    parser.add_argument("--ranks", type=int, nargs="+", default=[n for n in (2, 4, 8) if n <= os.cpu_count()])
    parser.add_argument("--layouts", nargs="+", default=["dp", "zero1"])
    parser.add_argument("--rounds", type=int, default=3, help="runs that take turns; the best of each counts (default 3)")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench, folder = Bench(arguments, Path(name)), Path(name)
        rates, config = {}, None
        for _ in range(arguments.rounds):
            for ranks in [1, *arguments.ranks]:
                for layout in arguments.layouts:
                    rate, config = bench.train(ranks, layout)
                    rates[ranks, layout] = max(rate, rates.get((ranks, layout), 0))
        run(*bench.launch(2), bench.cli, "scale", "--calibrate", folder / "host.json")
        print(f"{'ranks':>5} {'layout':>7} {'measured':>9} {'predicted':>9} {'interval':>15} {'error':>7}")
        for layout in arguments.layouts:
            predicted = bench.predict(folder / "host.json", config, layout, rates[1, layout])
            for ranks in arguments.ranks:
                row, measured = predicted[ranks], rates[ranks, layout]
                low, high = row["tokens_per_second_interval"]
                print(f"{ranks:>5} {layout:>7} {measured:>9.0f} {row['tokens_per_second']:>9.0f} "
                      f"{low:>7.0f}-{high:<7.0f} {row['tokens_per_second'] / measured - 1:>+7.1%}")


if __name__ == "__main__":
    main()
