#!/usr/bin/env python3
"""A data set of your own, with workers and a collate function."""
import tensora
from tensora.nn.utils.rnn import pad_sequence
from tensora.utils.data import DataLoader, Dataset


class Words(Dataset):
    """Words as codes of letters, of different lengths."""

    def __init__(self, words):
        self.words = words

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return tensora.tensor([ord(letter) - ord("a") + 1 for letter in self.words[i]])


def padded(samples):
    """Shorter words are filled up with zeros; the lengths are kept."""
    return pad_sequence(samples, batch_first=True), tensora.tensor([len(sample) for sample in samples])


words = Words("the quick brown fox jumps over the lazy dog".split())
loader = DataLoader(words, batch_size=4, collate_fn=padded, num_workers=2)
seen = 0
for batch, lengths in loader:
    print(batch, lengths)
    assert batch.shape[1] == lengths.max().item() and (batch != 0).sum() == lengths.sum()
    seen += len(lengths)
assert seen == len(words)
