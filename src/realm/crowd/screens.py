"""All that is asked of the annotators of a table, each question once: `check`, tables and reports read it here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from realm.crowd.accuracy import pairs_of
from realm.crowd.copies import CopyPair
from realm.crowd.drift import AnnotatorOverTime, over_time
from realm.crowd.engine import Bools, Floats, Ints
from realm.crowd.estimate import Estimate
from realm.crowd.label_figures import count_confusions
from realm.crowd.model import AnnotatorModel
from realm.crowd.verdicts import expected_interval, false_discoveries, one_answer, right_by_others, share_read, verdicts
from realm.data.annotations import UNKNOWN, Annotations

if TYPE_CHECKING:
    import pandas as pd

FEW, READ_SHARE = 10, 0.5
"""It is said of who gives one answer to so many items or more, and would hardly if they read half of them."""
ENOUGH_TO_JUDGE, LEAST_TYPICAL = 20, 0.1
"""Annotations from which an annotator is compared with the others (an accuracy's standard error is then 0.1), and the
typical expertise below which nobody is: there everybody is close to chance, and the table is to blame."""
LEAST_ITEMS, LEAST_MISTAKES, EXCESS, MOST_CONFUSED = 10, 5, 0.1, 2
"""Items of a label, times that another was given to them, and how much more often than expected that is (a share),
before anything is said: below ten points nobody would change the instructions; and how many cases a note names."""
NOT_READING, MIN_EXCESS, MIN_Z = 0.9, 0.15, 3.0
"""A habit is shown of those who read fewer labels than this over the whole interval, where the favourite's share lies
so far above its share of the task's labels and above an even one, and by so many standard errors."""


class Independence(NamedTuple):
    """How many independent annotators an item's are worth: 1 + tau (w - 1), copies being one of the w."""

    annotations_per_item: float
    effective: float
    exponent: float

    def __str__(self) -> str:
        n, worth = f"{self.annotations_per_item:.3g}", f"{self.effective:.2g}"
        return f"{n} annotators per item are worth about {worth} independent {'one' if worth == '1' else 'ones'}"


@dataclass(frozen=True, eq=False)
class Screens:
    """The questions about annotators, answered from one estimate of the table and computed when they are first asked.

    `model` is one of the same table, fitted or not, where it is at hand: who copies is found by it.
    """

    annotations: Annotations
    estimate: Estimate
    model: AnnotatorModel | None = None

    @cached_property
    def copies(self) -> list[CopyPair]:
        """Who copies from whom; nobody where every annotation counts for itself."""
        own = 1.0 if self.annotations.weight is None else self.annotations.weight
        return [] if (self.estimate.weight == own).all() else (self.model or AnnotatorModel(self.annotations)).copies

    @cached_property
    def verdicts(self) -> Ints:
        """Index into `VERDICTS`; -1 without annotations. Shape (annotators, tasks)"""
        return verdicts(self.annotations, self.estimate)

    @cached_property
    def right(self) -> Floats:
        """`right_by_others` of each annotation."""
        return right_by_others(self.annotations, self.estimate)

    @cached_property
    def times(self) -> list[AnnotatorOverTime]:
        """Every annotator over time; empty where annotations have no times."""
        return over_time(self.annotations, self.right)

    @cached_property
    def independence(self) -> Independence | None:
        """How many independent annotators an item's are worth; None where no item has two."""
        table, several = self.annotations, self.annotations.annotations_per_item > 1
        if not several.any():
            return None
        weight = self.estimate.annotations.sum(axis=0)
        exponent = float(self.estimate.exponent @ weight / max(weight.sum(), 1))
        shares = self.estimate.weight / (1.0 if table.weight is None else table.weight)
        independent = float(np.bincount(table.item, shares, minlength=table.n_items)[several].mean())
        return Independence(
            float(table.annotations_per_item[several].mean()), 1 + exponent * (independent - 1), exponent
        )

    @cached_property
    def constant(self) -> Bools:
        """Who always gives one answer where their items call for others. Shape (annotators, tasks)"""
        table, counts = self.annotations, self.estimate.annotations
        task = table.item_tasks[table.item].astype(np.int64)
        kind = task * int(table.option_counts.max(initial=1)) + table.label
        # where nobody else labelled the item, the answer is right as often as the task's labels are the same
        right = np.where(np.isnan(self.right), np.bincount(kind)[kind] / np.bincount(task)[task], self.right)
        log_p = np.bincount(pairs_of(table), np.log(1 - READ_SHARE * (1 - right)), minlength=counts.size)
        always = one_answer(self.estimate) & (counts >= FEW)
        p_value = np.where(counts >= FEW, np.where(always, np.exp(log_p.reshape(counts.shape)), 1.0), np.nan)
        return always & false_discoveries(p_value.ravel()).reshape(counts.shape)

    @cached_property
    def guessers(self) -> Bools:
        """Who surely reads fewer than half as many labels as is typical of the task. Shape (annotators, tasks)"""
        enough = self.estimate.annotations >= ENOUGH_TO_JUDGE
        expertise = np.where(enough.any(axis=0) & ~enough, np.nan, self.estimate.expertise)
        typical = np.where(self.estimate.relative_tasks, 0.0, np.nanmedian(expertise, axis=0))
        most = share_read(self.estimate, expected_interval(self.annotations, self.estimate)[1])
        return np.asarray(enough & (typical > LEAST_TYPICAL) & (most < typical / 2))

    @cached_property
    def confused(self) -> pd.DataFrame:
        """Who takes which label for which beyond chance, over all annotators, tasks and labels; the largest share first

        Columns: annotator, task, truth, given (by index), count, of (the annotator's items of that truth), share, and
        others (the share of all others, by the cleaned labels). An item is a k where its other annotators find k more
        probable than not. The share must exceed how often the others give that label; how often the annotator would by
        habit, (1 - b) xi; and how often they would if their errors were spread as the others' are: neither who guesses
        nor who errs often confuses anything in particular. Tasks whose items list their own options have none.
        """
        table, estimate, by_others = self.annotations, self.estimate, self.estimate.without_own(self.annotations)
        options = np.array([len(task.labels or ()) for task in table.tasks])
        clear = (by_others.max(axis=1) > np.log(0.5)) & (table.annotations_per_item[table.item] > 1)
        clear &= options[table.item_tasks[table.item]] > 0
        counts = count_confusions(table, np.where(clear, by_others.argmax(axis=1), UNKNOWN))
        counts["errors"] = counts["count"].where(counts["truth"] != counts["given"], 0)

        def total(*columns: str, of: str = "count") -> pd.Series[int]:
            return counts.groupby(["task", *columns])[of].transform("sum")

        annotator, task, given = (counts[name].to_numpy() for name in ("annotator", "task", "given"))
        times, of = counts["count"], total("annotator", "truth")
        counts["of"], counts["share"] = of, times / of
        other_times, other_of = total("truth", "given") - times, total("truth") - of
        other_errors = total("truth", of="errors") - total("annotator", "truth", of="errors")
        # one error of each kind in addition: others who never err say little of what an error would be
        spread = (other_times + 1) / (other_errors + np.maximum(options[task] - 1, 1))
        by_habit = (1 - estimate.expertise[annotator, task]) * estimate.habits[annotator, task, given]
        by_errors = (1 - estimate.accuracy[annotator, task]) * spread
        expected = np.clip(np.max([other_times / np.maximum(other_of, 1), by_habit, by_errors], axis=0), 0.0, 1.0)
        is_tested = (of >= LEAST_ITEMS) & (other_of >= LEAST_ITEMS)
        is_frequent = (counts["errors"] >= LEAST_MISTAKES) & (counts["share"] - expected > EXCESS)
        # as many as expected of the annotator's items, and as many of everybody's mistakes as of everybody's items
        p_value = np.maximum(
            bdtrc(times - 1, of, expected), bdtrc(times - 1, times + other_times, of / np.maximum(of + other_of, 1))
        )
        # a test for every other label of each annotator's label with enough items, few of which have a row
        is_first = ~counts.duplicated(["annotator", "task", "truth"])
        tests = int((options[task] - 1)[is_tested & is_first].sum())
        confused = counts[false_discoveries(np.where(is_tested & is_frequent, p_value, np.nan), tests)]
        cleaned = count_confusions(table, estimate.posterior.argmax(axis=1)[table.item])
        others = []
        for row in confused.to_dict("records"):
            same = cleaned[(cleaned["task"] == row["task"]) & (cleaned["truth"] == row["truth"])]
            same = same[same["annotator"] != row["annotator"]]
            others.append(same["count"][same["given"] == row["given"]].sum() / max(same["count"].sum(), 1))
        confused = confused.drop(columns="errors").assign(others=np.array(others, np.float64))
        return confused.sort_values("share", ascending=False, kind="stable", ignore_index=True)

    @cached_property
    def notes(self) -> npt.NDArray[np.object_]:
        """What there is to say of each annotator in each task beyond chance; empty where nothing is.

        "always answers `no`", "answers `neutral` for 62% of the items that are `positive`, as others do for 9%",
        "accuracy fell from 91% (84–96%) to 62% (51–72%) on 2026-03-04", "gives the same labels as `bob` on 98% of 210
        shared items". Shape (annotators, tasks)
        """
        table, texts = self.annotations, defaultdict[tuple[int, int], list[str]](list)
        labels = self.estimate.cells[:, 2]
        for who, task in np.argwhere(self.constant).tolist():
            answer = labels[(self.estimate.cells[:, :2] == (who, task)).all(axis=1)][0]
            texts[who, task].append(f"always answers {self._name(task, answer)}")
        for each in self.confused.groupby(["annotator", "task"]).head(MOST_CONFUSED).to_dict("records"):
            given, truth = self._name(each["task"], each["given"]), self._name(each["task"], each["truth"])
            text = f"answers {given} for {each['share']:.0%} of the items that are {truth}, as others do for"
            texts[each["annotator"], each["task"]].append(f"{text} {each['others']:.0%}")
        tasks = [task.name for task in table.tasks]
        for when in self.times:
            if when.changed:
                texts[table.annotators.index(when.annotator), tasks.index(when.task)].append(when.change)
        partners = defaultdict[int, list[tuple[float, int, int]]](list)
        for pair in self.copies:
            for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
                partners[one].append((-pair.same / pair.shared, -pair.shared, other))
        for one, others in partners.items():
            share, shared, other = min(others)  # the nearest
            text = f"gives the same labels as `{table.annotators[other]}` on {-share:.0%} of {-shared:,} shared items"
            text += f", and nearly the same as {len(others) - 1:,} more" * (len(others) > 1)
            for task in range(len(tasks)):
                texts[one, task].append(text)
        notes = np.full(self.estimate.annotations.shape, "", dtype=object)
        for at, of_pair in texts.items():
            notes[at] = "; ".join(of_pair)
        return notes

    @cached_property
    def habits(self) -> npt.NDArray[np.object_]:
        """What each annotator answers when not answering from the item, where it is clear; empty elsewhere.

        "answers `toxic` 93% of the time when not answering from the item"; "option 1" where items list their own. Those
        who always give one answer or confuse labels are in `notes`. Shape (annotators, tasks)
        """
        table, estimate, habits = self.annotations, self.estimate, np.nan_to_num(self.estimate.habits)
        counts = np.zeros((len(table.tasks), habits.shape[2]))
        np.add.at(counts, (table.item_tasks[table.item], table.label), 1)
        option, favourite = habits.argmax(axis=2), habits.max(axis=2)
        shares = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[np.arange(len(counts)), option]
        usual = np.maximum(shares, 1 / np.maximum((habits > 0).sum(axis=2), 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            by_habit = (1 - estimate.expertise) * estimate.annotations
            standard_error = np.sqrt(np.maximum(usual * (1 - usual), 1 / habits.shape[2] ** 2) / by_habit)
            is_clear = (estimate.expertise > 0) & (share_read(estimate, estimate.high) < NOT_READING)
            is_clear &= (favourite - usual > np.maximum(MIN_EXCESS, MIN_Z * standard_error)) & ~one_answer(estimate)
        is_clear[self.confused["annotator"], self.confused["task"]] = False
        words = np.full(is_clear.shape, "", dtype=object)
        for who, task in np.argwhere(is_clear).tolist():
            answer = f"{self._name(task, option[who, task])} {favourite[who, task]:.0%}"
            words[who, task] = f"answers {answer} of the time when not answering from the item"
        return words

    def _name(self, task: int, label: int) -> str:
        """A label by its name, or by its place where items list options of their own."""
        names = self.annotations.tasks[task].labels
        return f"option {label + 1}" if names is None else f"`{names[label]}`"
