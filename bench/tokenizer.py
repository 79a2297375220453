"""Encoding a text on one thread with Hugging Face's library; bench/tokenizer.cpp does the same with Tensora.

usage: python3 bench/tokenizer.py TOKENIZER.json TEXT
"""

import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402


def best_of(rounds, body):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        body()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    load = best_of(3, lambda: Tokenizer.from_file(sys.argv[1]))
    tokenizer = Tokenizer.from_file(sys.argv[1])
    text = open(sys.argv[2], encoding="utf-8", errors="replace", newline="").read()
    size = len(text.encode())
    print(f"load {load * 1e3:.1f} ms")
    whole = best_of(7, lambda: tokenizer.encode(text))
    ids = tokenizer.encode(text).ids
    print(f"encode whole text     {size / whole / 1e6:8.1f} MB/s  {len(ids)} tokens of {size} bytes")
    parts = [text[at:at + 200] for at in range(0, len(text), 200)]
    print(f"encode 200-byte texts {size / best_of(7, lambda: [tokenizer.encode(part) for part in parts]) / 1e6:8.1f} MB/s")
    print(f"decode                {size / best_of(7, lambda: tokenizer.decode(ids)) / 1e6:8.1f} MB/s")


if __name__ == "__main__":
    main()
