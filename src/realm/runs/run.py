"""`Run`: a finished run read back from its folder, to predict, evaluate and ask about its annotators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from realm.crowd.estimate import Estimate
from realm.crowd.relabel import relabel_queue
from realm.crowd.screens import Screens
from realm.crowd.tables import expertise_table, labels_table
from realm.data import Annotations, Items, Task
from realm.data.build import items_of_rows
from realm.data.roles import Corrections, TrainedColumns
from realm.display import counted, notebook_html
from realm.errors import RealmError
from realm.files import MANIFEST, read_tensors, verify_manifest
from realm.progress import Progress, ignore_progress
from realm.runs import folder as layout
from realm.runs.annotations_file import read_annotations
from realm.runs.machine_files import Metrics, ScorerSettings, read_checked, read_config
from realm.runs.predictions import asked_table, refuse_file_name, with_answers

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from realm.scorers.base import Scorer

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """A finished run, read back from its folder.

    | attribute or method | what it gives |
    |---|---|
    | expertise | DataFrame: how reliable each annotator is in each task, with an interval |
    | labels | DataFrame: the most probable label of every item, with its confidence |
    | predict | DataFrame: the model's answers to new texts |
    | evaluate | metrics of the model on a table with gold |
    | relabel | a DataFrame: what to have labelled again, and by whom |
    | estimate, log_probs, annotations | the arrays and the table behind `expertise` and `labels` |
    | labels_dataset, push_to_hub | `labels` as a `datasets.Dataset`; the model with its card to the hub |
    | config, metrics | settings and fingerprints; losses, test metrics, warnings |
    | model, tokenizer, scorer | the trained model as `transformers` has it; what asks it for log P of the options |

    Reading a run imports no torch; `predict`, `evaluate` and `scorer` do. Only parquet, safetensors, JSON and YAML
    (safely) are read, never the CSV files, so editing those changes nothing here.

    Examples:
        >>> run = Run.open("runs/sentiment")  # doctest: +SKIP
        >>> run.predict(["what a film", "what a bore"])[["label", "confidence"]]  # doctest: +SKIP
        >>> run.expertise.sort_values("low", ascending=False).head()  # doctest: +SKIP
    """

    folder: Path

    def __post_init__(self) -> None:
        if not isinstance(self.folder, Path):
            raise RealmError(f"a run is opened with `Run.open({str(self.folder)!r})`, which checks its files.")

    @classmethod
    def open(cls, folder: str | Path, *, verify_model: bool = True) -> Run:
        """Open a run folder. What will be read is checked against the manifest; `model/` only if `verify_model`."""
        folder = Path(folder)
        if not folder.is_dir():
            raise RealmError(f"{folder}: no such run folder.")
        if not (folder / MANIFEST).exists():
            raise RealmError(
                f"{folder}: the run did not finish; train again with the same `output` and `resume`."
                if layout.holds_run(folder)
                else f"{folder} is not a run folder (it has no {MANIFEST})."
            )
        layout.refuse_code(folder)
        unread = (layout.EXPERTISE_CSV, layout.LABELS_CSV)  # somebody may have opened and saved them in a spreadsheet
        skip = (*unread, layout.REPORT, layout.CHECKPOINTS)
        verify_manifest(folder, skip if verify_model else (*skip, layout.MODEL), expected=layout.is_read)
        run = cls(folder)
        _ = run.config  # refuses a layout of another version
        return run

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: {self._about})"

    def _repr_html_(self) -> str:
        facts = {"about": self._about, "labels and reliability rest on": self.probabilities}
        facts |= {"findings": " ".join(self.findings)}
        columns = ["annotator", "task", "accuracy", "low", "high", "annotations", "verdict"]
        return notebook_html(f"Run {self.folder}", facts, self.expertise[columns])

    @property
    def _about(self) -> str:
        data, method = self.config["data"], self.config["settings"].get("method", "realm")
        sizes = [counted(data[f"{name}s"], name) for name in ("item", "annotator", "annotation") if f"{name}s" in data]
        return f"{method} on {self.config['model'] or 'a model without a name'}; {', '.join(sizes)}"

    # ---------------------------------------------------------------- what the run recorded

    @cached_property
    def config(self) -> dict[str, Any]:
        """Model, settings, fingerprints of the data, versions."""
        return read_config(self.folder)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The training log, metrics on the test table, warnings."""
        return read_checked(self.folder / layout.METRICS, Metrics)  # type: ignore[no-any-return]

    @cached_property
    def scorer_settings(self) -> dict[str, Any]:
        """How items are asked: kind of scorer, prompt style, tasks."""
        return read_checked(self.folder / layout.SCORER, ScorerSettings)  # type: ignore[no-any-return]

    @property
    def gold_used(self) -> bool:
        return bool(self.config["gold_used"])

    @property
    def probabilities(self) -> str:
        """What labels and reliability rest on: `out of fold (5 folds)` or `before each step`."""
        return str(self.metrics["probabilities"])

    @property
    def findings(self) -> list[str]:
        """What speaks against the model and what follows from it, and labels that have moved."""
        return list(self.metrics["findings"])

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks with their labels; None where every item lists its own options."""
        entries = [(task["name"], task["labels"]) for task in self.scorer_settings["tasks"]]
        return tuple(Task(name, None if labels is None else tuple(labels)) for name, labels in entries)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the run was trained on, by role: text, and context, item, options and task if it had any."""
        return dict(self.config.get("columns") or {})

    @property
    def trained_columns(self) -> TrainedColumns | None:
        """How tables for this run are read: by the columns it was trained on, with the same labels renamed."""
        if not self.columns:
            return None
        maps = (self.config.get(name) or {} for name in ("map_labels", "map_annotators"))
        corrections = Corrections(tuple(self.config.get("exclude") or ()), *maps)
        return TrainedColumns(str(self.folder), self.columns, self.config.get("export"), corrections)

    @cached_property
    def annotations(self) -> Annotations:
        """The table the run was trained on; gold is in it only if the run used it."""
        path = self.folder / layout.ANNOTATIONS
        table = read_annotations(path, self.tasks, read_checked(self.folder / layout.ANNOTATORS, list[str]))
        trained = self.config["data"].get("items", table.n_items)
        if table.n_items != trained:
            raise RealmError(f"{path} has {table.n_items:,} items; the run was trained on {trained:,}.")
        return table

    @cached_property
    def log_probs(self) -> Floats:
        """The model's log P of every item's options, in-sample or out of fold. (items, Kmax)"""
        return read_tensors(self.folder / layout.PREDICTIONS)["log_probs"].astype(np.float64)

    @cached_property
    def estimate(self) -> Estimate:
        """Expertise, accuracy, intervals and the posterior of every item."""
        return Estimate.from_arrays(read_tensors(self.folder / layout.ESTIMATE))

    @cached_property
    def screens(self) -> Screens:
        """What is asked of the annotators: copies, patterns, confusions, changes over time."""
        return Screens(self.annotations, self.estimate)

    @cached_property
    def channel_summary(self) -> dict[str, Floats]:
        """What the channel learned of each annotator and task, by column: (annotators, tasks). Empty without one."""
        path = self.folder / layout.SUMMARY
        return read_tensors(path) if path.exists() else {}

    # ---------------------------------------------------------------- tables

    @property
    def expertise(self) -> pd.DataFrame:
        """One row per annotator and task that they labelled, the most accurate of a task first.

        Columns: annotator, task, expertise (beta; `expertise_trained`: as the channel learned it), accuracy with its
        95% interval (low, high), annotations, agreement (with the most probable labels), verdict, scale, probabilities.
        """
        arguments = self.annotations, self.estimate, self.channel_summary, self.probabilities
        return expertise_table(*arguments, screens=self.screens)

    @property
    def labels(self) -> pd.DataFrame:
        """One row per item, in the table's order: the most probable label, confidence, runner-up, labels given."""
        return labels_table(self.annotations, self.estimate.posterior, self.probabilities)

    def labels_dataset(self) -> Any:
        """`labels` as a `datasets.Dataset`; `label` is a `ClassLabel` where there is one task with a label set."""
        from realm.data.hf_datasets import with_class_labels

        table = pa.Table.from_pandas(self.labels, preserve_index=False)
        return with_class_labels(table, self.tasks, ("label",))

    def relabel(
        self, budget: float = 100, costs: Mapping[str, float] | None = None, most_each: int | None = None
    ) -> pd.DataFrame:
        """The items that one more annotation would tell most about, and whom to ask, the greatest gain first.

        Args:
            budget: how many annotations to ask for; with `costs`, how much they may cost together.
            costs: the price of one annotation by annotator; only those named are asked.
            most_each: how many annotations one annotator is asked for at most.
        """
        return relabel_queue(self.annotations, self.log_probs, self.estimate, budget, costs, most_each)

    def push_to_hub(self, repo_id: str, *, private: bool = True) -> str:
        """Put the files of `model/`, and nothing that was learned of annotators, on the Hugging Face hub in one commit.

        Returns the address. `repo_id` is `owner/name`; a repository that is made for it is private unless `private` is
        false. The token comes from where `huggingface_hub` finds it: HF_TOKEN, or `hf auth login`.
        """
        from realm.runs.hub import check_access, push

        check_access(repo_id, "repo_id")
        return push(Run.open(self.folder), repo_id, private=private)

    # ---------------------------------------------------------------- the model

    @cached_property
    def scorer(self) -> Scorer:
        """The trained backbone and tokenizer, which give log P of an item's options."""
        from realm.scorers import build_scorer
        from realm.scorers.prompts import PromptStyle

        settings, model = self.scorer_settings, str(self.folder / layout.MODEL)
        style, most = PromptStyle(**settings["style"]), int(settings["max_options"])
        scorer = build_scorer(model, settings["kind"], style, self.tasks, most, trained=True)
        scorer.restore(settings)
        return scorer

    @property
    def model(self) -> PreTrainedModel:
        """The trained model, a plain one of `transformers`, read from the checkpoint `model/` of the folder."""
        return self.scorer.backbone

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of `model`."""
        return self.scorer.tokenizer

    def predict(
        self,
        items: str | Iterable[str] | Iterable[Mapping[str, Any]] | Items | pd.DataFrame | Path,
        *,
        task: str | None = None,
        progress: Progress = ignore_progress,
        **columns: Any,
    ) -> pd.DataFrame:
        """The most probable option of each item, in order, with its confidence and the probabilities of all (JSON).

        Args:
            items: a text, or several (a list, a Series, an array), or `Items` built with `tasks=run.tasks`, or a table:
                a DataFrame, a `datasets.Dataset`, a list of dictionaries, or the `Path` of a file. A table keeps its
                own columns; an answer is called `predicted_...` where it has a column of that name.
            task: the task of the texts, where the run has several; of a table, the name of its column.
            progress: called with how many items are answered.
            **columns: of a table, the column of `text`, `context`, `options` or `item` where it is not the run's.
        """
        if isinstance(items, Path):
            import pandas as pd

            return pd.concat(list(self.predict_file(items, progress, task=task, **columns)), ignore_index=True)
        if (table := asked_table(items)) is not None:
            rows = items_of_rows(table, tasks=self.tasks, trained=self.trained_columns, task=task, **columns)
            return with_answers(table, next(self._answers([rows], progress)))
        if columns:
            raise RealmError(f"`{next(iter(columns))}` names a column of a table, and `items` is none.")
        if isinstance(items, Items):
            if task is not None:
                raise RealmError("`task` is for texts and tables: `Items` know their own.")
            return next(self._answers([items], progress))
        if isinstance(items, str):
            refuse_file_name(items, "items")
            items = [items]
        if isinstance(items, Annotations | Mapping) or not isinstance(items, Iterable):
            raise RealmError(f"`items` is {type(items).__name__}: give texts, `Items`, a DataFrame or a `Path`.")
        texts = Items.from_texts(list(items), self.tasks, task=task)  # type: ignore[arg-type]
        return next(self._answers([texts], progress))

    def predict_file(
        self, path: str | Path, progress: Progress = ignore_progress, **arguments: Any
    ) -> Iterator[pd.DataFrame]:
        """`predict` of a file of any length, part by part: every row in order, with its own columns and its answer.

        `arguments` name columns that are not the run's and the `format`; see `Annotations.read`.
        """
        from realm.data.readers.streaming import stream_rows

        tables: deque[pa.Table] = deque()

        def chunks() -> Iterator[Items]:
            for chunk in stream_rows(path, tasks=self.tasks, trained=self.trained_columns, **arguments):
                tables.append(chunk.table)
                yield chunk.items

        for answers in self._answers(chunks(), progress):
            yield with_answers(tables.popleft(), answers)

    def _answers(self, chunks: Iterable[Items], progress: Progress) -> Iterator[pd.DataFrame]:
        from realm.scorers.scoring import predict_chunks

        return predict_chunks(self.scorer, (self._with_same_tasks(items) for items in chunks), progress)

    def evaluate(
        self,
        test: Annotations | pd.DataFrame | Sequence[Mapping[str, Any]] | str | Path,
        *,
        progress: Progress = ignore_progress,
    ) -> dict[str, Any]:
        """Metrics over the items with gold and, where the run has several tasks, of each under `tasks`.

        `items_trained_on` says how many of them the run was trained on: on these its answers are no test.

        Args:
            test: a table read with `tasks=run.tasks`, or a DataFrame or file of items with gold.
            progress: called with how many items are answered.
        """
        from realm.metrics import evaluate, gold_items, items_trained_on
        from realm.scorers.scoring import score

        if isinstance(test, Annotations):
            table = test
        elif isinstance(test, str | Path):
            table = Annotations.read_test(test, tasks=self.tasks, trained=self.trained_columns)
        elif (frame := asked_table(test)) is not None:
            table = Annotations.test_from_pandas(frame, tasks=self.tasks, trained=self.trained_columns)
        else:
            raise RealmError(f"`test` is {type(test).__name__}: give a file, a DataFrame or `Annotations`, with gold.")
        items = self._with_same_tasks(table.items)
        gold_items(table)  # refuses a table without gold before the model is asked
        encoded = self.scorer.encode(items)
        scores = score(self.scorer, encoded, answer_mass=True, progress=progress)
        return evaluate(table, scores) | {"items_trained_on": items_trained_on(self.annotations, table)}

    def _with_same_tasks(self, items: Items) -> Items:
        """The items, if a label means the same in them as in the run, and they have a context where the run's had."""
        if items.tasks != self.tasks:
            raise RealmError(
                f"the items have the tasks {list(items.tasks)}; the run has {list(self.tasks)}. Read or build them "
                "with `tasks=run.tasks`, so that a label means the same in both."
            )
        trained = self.annotations.items
        if "context" in self.columns and items.contexts is None and trained.contexts is not None:
            has_context = np.asarray(trained.contexts.is_valid())
            if any(has_context[trained.item_tasks == task].all() for task in np.unique(items.item_tasks)):
                raise RealmError(f"the items have no context; the run was trained with '{self.columns['context']}'.")
        return items
