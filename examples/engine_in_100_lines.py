"""REALM's model of annotators in one file: EM in plain numpy, and no import of the package.

    python examples/engine_in_100_lines.py labels.csv

reads a CSV file with the columns text, annotator and label, and prints how accurate each annotator is and the label of
each text. The truth of an item is z; annotator j gives the label y with probability C_j[z, y], where
    C_j[k] ~ Dirichlet(ROWS * rho_jk),  rho_jk(y) ~ (b_j [y = k] + (1 - b_j) xi_j(y)) D[k, y]:
j reads the item (b_j) or answers by habit (xi_j), D are mistakes that everybody shares, and rows of C_j that have
labels of their own depart from that. b_j and xi_j are drawn to the pool. What the package adds: a model's P(z) in place
of class shares, better starts, copies, gold, intervals, one label per item, sparse arrays for millions of annotations.
"""

import csv
import math
import sys

import numpy as np

ROWS, SHARED, SKILL, CLASSES = 50.0, 50.0, 4.0, 1.0  # labels that each prior is worth
POOL_START, POOL_WEIGHT = 0.7, 2.0  # the pool's mean b before there is data, and its worth in annotators
KAPPAS = np.geomspace(1.0, 1000.0, 25)
lgamma = np.vectorize(math.lgamma)


def read(path):
    """The distinct texts, annotators and labels, and the annotations as three rows of numbers."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["annotator"], row["label"]) for row in csv.DictReader(file)]
    names = [sorted(set(column)) for column in zip(*rows, strict=True)]
    numbers = [{name: number for number, name in enumerate(column)} for column in names]
    return *names, np.array([[numbers[i][value] for i, value in enumerate(row)] for row in rows]).T


def concentration(given, shares):
    """kappa: how many labels the pool's label shares are worth, by Dirichlet-multinomial maximum likelihood."""
    total = given.sum(axis=1)
    logs = [
        (lgamma(kappa) - lgamma(total + kappa)).sum() + (lgamma(given + kappa * shares) - lgamma(kappa * shares)).sum()
        for kappa in KAPPAS
    ]
    return KAPPAS[int(np.argmax(logs))]


def statistics(posterior, item, annotator, label, weight, people):
    """N[j, k, y]: how often j said y where k is true, in expectation. A sum over items: shards of items add up."""
    counts = np.zeros((people, posterior.shape[1], posterior.shape[1]))
    for i, j, y, w in zip(item, annotator, label, weight, strict=True):
        counts[j, :, y] += w * posterior[i]
    return counts


def maximise(counts, shares, kappa, b, xi, pool):
    """From expected counts (annotators, truth, label) to b, xi, D, the confusion matrices and the pool's mean b."""
    given, truths = counts.sum(axis=1), counts.sum(axis=2)  # (annotators, label), (annotators, truth)
    total, right = given.sum(axis=1), np.einsum("jkk->jk", counts)
    for _ in range(5):  # which right labels were read off the item, and which were lucky guesses
        was_read = right * b[:, None] / (b[:, None] + (1 - b[:, None]) * xi)
        b = (was_read.sum(axis=1) + SKILL * pool) / (total + SKILL)
        guessed = given - was_read
        xi = (guessed + kappa * shares) / (guessed.sum(axis=1) + kappa)[:, None]
    trust = total / (total + SKILL)
    pool = (trust @ b + POOL_WEIGHT * POOL_START) / (trust.sum() + POOL_WEIGHT)
    mixture = b[:, None, None] * np.eye(len(shares)) + (1 - b)[:, None, None] * xi[:, None, :]  # (annotators, k, y)
    expected = np.einsum("jk,jky->ky", truths, mixture)
    d = (counts.sum(axis=0) + SHARED) / (expected + SHARED)
    rho = mixture * d
    rho /= rho.sum(axis=2, keepdims=True)
    return b, xi, d, (counts + ROWS * rho) / (truths[:, :, None] + ROWS), pool


def fit(item, annotator, label, n_items, people, k, weight=None, iterations=100):
    """EM from the vote: the posterior of the items (items, k), the confusion matrices, b, xi, D and class shares."""
    weight = np.ones(len(item)) if weight is None else weight
    votes, given = np.zeros((n_items, k)), np.zeros((people, k))
    np.add.at(votes, (item, label), weight)
    np.add.at(given, (annotator, label), weight)
    labelled = np.bincount(item, minlength=n_items) > 0
    posterior = np.where(labelled[:, None], votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-12), 1 / k)
    shares = (given.sum(axis=0) + 1) / (given.sum() + k)
    kappa, pool = concentration(given, shares), POOL_START
    b, xi = np.full(people, pool), np.tile(shares, (people, 1))
    for _ in range(iterations + 1):
        counts = statistics(posterior, item, annotator, label, weight, people)
        b, xi, d, confusion, pool = maximise(counts, shares, kappa, b, xi, pool)
        classes = (posterior[labelled].sum(axis=0) + CLASSES) / (labelled.sum() + CLASSES * k)
        scores = np.tile(np.log(classes), (n_items, 1))
        np.add.at(scores, item, weight[:, None] * np.log(np.maximum(confusion[annotator, :, label], 1e-12)))
        posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior, confusion, b, xi, d, classes


if __name__ == "__main__":
    texts, annotators, labels, (item, annotator, label) = read(sys.argv[1])
    posterior, confusion, b, *_ = fit(item, annotator, label, len(texts), len(annotators), len(labels))
    for j, name in enumerate(annotators):
        print(f"{posterior[item[annotator == j], label[annotator == j]].mean():.3f}  {name}, who reads {b[j]:.0%}")
    for text, p in zip(texts, posterior, strict=True):
        print(f"{labels[p.argmax()]}  {p.max():.3f}  {text}")
