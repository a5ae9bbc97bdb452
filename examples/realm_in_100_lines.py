"""REALM's whole method in one file: plain PyTorch and transformers, and no import of the package.

    python examples/realm_in_100_lines.py labels.csv HuggingFaceTB/SmolLM2-135M-Instruct tuned

reads a CSV file with the columns text, annotator and label, fine-tunes a causal language model on it, learns how far
each annotator can be trusted, prints that, and saves the model. What the package adds: every kind of model, several
tasks, items with their own options, other channels, an exact resume, intervals, cleaned labels and a report.
"""

import csv
import math
import sys

import torch
from torch.nn.functional import logsigmoid
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

OBJECTIVE = "paper"  # or "joint"
EPOCHS, BATCH, RATE, EXPERTISE_RATE = 3, 16, 5e-5, 0.1


def read(path):
    """The distinct texts, annotators and labels, and each annotation as a row (item, annotator, label) of numbers."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["annotator"], row["label"]) for row in csv.DictReader(file)]
    names = [sorted(set(column)) for column in zip(*rows, strict=True)]
    numbers = [{name: number for number, name in enumerate(column)} for column in names]
    indices = [[numbers[i][value] for i, value in enumerate(row)] for row in rows]
    return *names, torch.tensor(indices)


def log_probabilities(model, tokenizer, texts, options):
    """log P(option | prompt): a softmax over the letters of the options alone, where the answer begins. (items, K)"""
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(options)]
    answers = tokenizer([f" {letter}" for letter in letters], add_special_tokens=False).input_ids
    listed = "\n".join(f"{letter}) {option}" for letter, option in zip(letters, options, strict=True))
    prompts = tokenizer([f"{text}\n{listed}\nAnswer:" for text in texts]).input_ids
    rows = [torch.tensor(prompt + answers[0][:-1]) for prompt in prompts]  # all but the last token are the same
    lengths = torch.tensor([len(row) for row in rows])
    ids = pad_sequence(rows, batch_first=True)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    logits = model(input_ids=ids, attention_mask=mask).logits[torch.arange(len(rows)), lengths - 1]
    return logits[:, [answer[-1] for answer in answers]].log_softmax(dim=1)


def evidence(omega, annotator, label, k):
    """log P(label | option j is true) = log(beta [label = j] + (1 - beta) / K), beta = sigmoid(omega). (annotations, K)

    The channel of the paper: an annotator knows the answer with probability beta, and otherwise guesses.
    """
    guess = logsigmoid(-omega[annotator]) - math.log(k)
    right = torch.logaddexp(logsigmoid(omega[annotator]), guess)
    return torch.where(torch.arange(k) == label[:, None], right[:, None], guess[:, None])


def loss(log_p, log_evidence, item, objective):
    """Minus the mean log-likelihood of the annotations. log_p (items, K), log_evidence (annotations, K), item its row.

    `paper` counts every annotation as if it were an item of its own (Equation 3); `joint` takes the annotations of an
    item together: its gradient in the logits is P minus the posterior of the true label.
    """
    if objective == "paper":
        return -(log_p[item] + log_evidence).logsumexp(dim=1).mean()
    together = torch.zeros_like(log_p).index_add(0, item, log_evidence)
    return -(log_p + together).logsumexp(dim=1).mean()


def train(model, tokenizer, texts, annotators, options, annotations):
    """Train model and expertise together. The annotations of an item share one forward."""
    omega = torch.zeros(len(annotators), requires_grad=True)  # beta = 0.5 for everybody
    groups = [{"params": model.parameters()}, {"params": [omega], "lr": EXPERTISE_RATE, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    steps = EPOCHS * math.ceil(len(texts) / BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for items in torch.randperm(len(texts)).split(BATCH):
            rows = (annotations[:, :1] == items).nonzero()  # (annotation, its item's place in the batch)
            _, annotator, label = annotations[rows[:, 0]].T
            log_p = log_probabilities(model, tokenizer, [texts[i] for i in items], options)
            value = loss(log_p, evidence(omega, annotator, label, len(options)), rows[:, 1], OBJECTIVE)
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return omega.detach().sigmoid()


if __name__ == "__main__":
    labels_file, name, output = sys.argv[1:]
    torch.manual_seed(0)
    tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModelForCausalLM.from_pretrained(name).train()
    texts, annotators, options, annotations = read(labels_file)
    expertise = train(model, tokenizer, texts, annotators, options, annotations)
    for beta, annotator in sorted(zip(expertise.tolist(), annotators, strict=True), reverse=True):
        print(f"{beta:.3f}  {annotator}")
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
