"""What the server that processes are forked from has done beforehand, so that each of them need not.

Modules are imported, and what transformers, jinja and typer make of them at their first use is made: a thousand regular
expressions, the report's templates, the commands. That is half of what a short training in a new process takes. Nothing
here may start a thread, which a fork would lose.
"""

from __future__ import annotations

import contextlib
import importlib
import io

import transformers
from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from typer.main import get_command

from realm.cli.main import app
from realm.report import html
from realm.runs import model_card

MODULES = [
    *("realm.channels.confusion", "realm.channels.habit", "realm.channels.uniform"),
    *("realm.comparison.compare", "realm.comparison.training", "realm.crowd.against_gold", "realm.crowd.estimate"),
    *(
        "realm.data.readers.streaming",
        "realm.report.comparison_page",
        "realm.report.run_page",
    ),
    *("realm.runs.writer", "realm.training.run_output", "realm.training.trainer"),
    *(
        "pandas.io.formats.csvs",
        "peft",
        "pydantic.type_adapter",
        "rich.console",
        "rich.table",
        "torch.utils.serialization",
    ),
    *("tests.built_once", "tests.tiny", "tests.trainers"),
]

for name in MODULES:
    importlib.import_module(name)
for name in ("BertModel", "LlamaModel", "T5Model"):
    getattr(transformers, name)
get_checkpoint_conversion_mapping("bert")
for name in html._templates().list_templates():
    html._templates().get_template(name)
model_card._template("card.md.jinja")
with contextlib.redirect_stdout(io.StringIO()):
    get_command(app)(["--version"], standalone_mode=False)
