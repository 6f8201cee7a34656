"""Connectionist temporal classification on synthetic speech: a recurrent network spells words whose sounds have no known borders.

Each letter is a sound of its own pitch and of random length and loudness, in noise. An ordinary PyTorch program:
`python -m flambeau examples/ctc_speech.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

LETTERS = "-abcdefgh"  # the first one is CTC's blank
BANDS = 20


class Speech(Dataset):
    """Words of 2 to 6 letters and their spectrograms of shape (frames, bands), made in advance."""

    def __init__(self, count, seed):
        generator = random.Random(seed)
        self.items = [self._make(generator) for _ in range(count)]

    @staticmethod
    def _make(generator):
        word = [generator.randrange(1, len(LETTERS)) for _ in range(generator.randint(2, 6))]
        bands, frames = torch.arange(BANDS, dtype=torch.float32), []
        for letter in word:
            loudness, frames_of_letter = generator.uniform(0.7, 1.3), generator.randint(3, 7)
            low, high = 1.0 + 2.0 * letter, 3.0 + 5.0 * letter % BANDS  # two formants
            sound = torch.exp(-0.5 * (bands - low) ** 2) + torch.exp(-0.5 * (bands - high) ** 2)
            frames += [loudness * sound] * frames_of_letter
            frames += [torch.zeros(BANDS)] * generator.randint(0, 2)
        noise = torch.tensor([[generator.gauss(0, 0.3) for _ in range(BANDS)] for _ in frames])
        return torch.stack(frames) + noise, torch.tensor(word)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def collate(items):
    """Padded spectrograms, all words in a row, and both lengths."""
    sounds, words = zip(*items)
    lengths = torch.tensor([len(sound) for sound in sounds])
    return pad_sequence(sounds), torch.cat(words), lengths, torch.tensor([len(word) for word in words])


class Recognizer(nn.Module):
    """A convolution over time, a bidirectional GRU, and log-probabilities of every letter and the blank for each frame."""

    def __init__(self, hidden=48):
        super().__init__()
        self.convolution = nn.Sequential(nn.Conv1d(BANDS, hidden, 3, padding=1), nn.GELU())
        self.norm = nn.LayerNorm(hidden)
        self.gru = nn.GRU(hidden, hidden, bidirectional=True)
        self.head = nn.Linear(2 * hidden, len(LETTERS))

    def forward(self, sounds, lengths):
        features = self.convolution(sounds.permute(1, 2, 0)).permute(2, 0, 1)
        packed = pack_padded_sequence(self.norm(features), lengths, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.gru(packed)[0], total_length=len(sounds))
        return self.head(output).log_softmax(dim=2)


def greedy_decode(log_probabilities, lengths):
    """The best letter of every frame, repetitions joined and blanks left out."""
    best = log_probabilities.argmax(dim=2).t()
    words = []
    for path, length in zip(best, lengths):
        joined = torch.unique_consecutive(path[:length])
        words.append(joined[joined != 0].tolist())
    return words


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


@torch.no_grad()
def evaluate(model, loader):
    """The letter error rate, and some words with what was heard."""
    model.eval()
    errors, letters, examples = 0, 0, []
    for sounds, targets, lengths, target_lengths in loader:
        heard = greedy_decode(model(sounds, lengths), lengths)
        spoken = [word.tolist() for word in targets.split(target_lengths.tolist())]
        errors += sum(map(edit_distance, heard, spoken))
        letters += len(targets)
        examples += zip(spoken, heard)
    return errors / letters, [tuple("".join(LETTERS[i] for i in word) for word in pair) for pair in examples[:5]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--words", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    train_loader = DataLoader(Speech(options.words, options.seed), batch_size=options.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(Speech(100, options.seed + 1), batch_size=50, collate_fn=collate)
    model = Recognizer()
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=options.lr, epochs=options.epochs, steps_per_epoch=len(train_loader), pct_start=0.2
    )
    step = 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        for sounds, targets, lengths, target_lengths in train_loader:
            loss = criterion(model(sounds, lengths), targets, lengths, target_lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        rate, examples = evaluate(model, test_loader)
        print(f"epoch {epoch}: loss {loss.item():.4f}, letter error rate {rate:.2%}")
    for spoken, heard in examples:
        print(f"spoken {spoken:<6}  heard {heard}")


if __name__ == "__main__":
    main()
