"""Messages of the library, as the command line shows them."""

from __future__ import annotations

import logging

import pytest

from realm.cli.messages import Flag, all_flags, with_flags
from realm.errors import RealmError


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`use_gold` needs gold", "--use-gold needs gold"),
        ("`use_gold=True` needs gold", "--use-gold needs gold"),
        ("`max_steps=0` is too few", "--steps 0 is too few"),
        ("set `num_train_epochs=2.5`", "set --epochs 2.5"),
        ("`per_device_train_batch_size`", "--micro-batch-size"),
        ("pin them with `experts`", "pin them with --expert"),
        ("`output_dir` exists", "--output exists"),
        ("`method=\"oracle\"` and `method='noisy'`", "--method oracle and --method noisy"),
        ("`opinion=False`", "--no-opinion"),
        ("Name the column with `text`", "Name the column with --text"),
        ("`annotator`, `label`, `gold` and `label_form`", "--annotator, --label, --gold and --label-form"),
        ("`as_json`", "--json"),
        ("`cross_fit=1`: one fold", "--cross-fit 1: one fold"),
    ],
)
def test_arguments_become_flags(message: str, shown: str) -> None:
    assert with_flags(message) == shown


@pytest.mark.parametrize(
    "message",
    ["`realm` learns expertise", "a column `price`", "`realm train --cross-fit`", "use_gold", "``", "`help`", "a ` b"],
)
def test_other_words_stay(message: str) -> None:
    assert with_flags(message) == message


def test_a_switch_that_cannot_be_turned_off_has_no_made_up_flag() -> None:
    flags = {"use_gold": Flag("--use-gold", is_switch=True)}
    assert with_flags("`use_gold=False`", flags) == "no --use-gold"


def test_every_option_of_every_command_is_known() -> None:
    flags = all_flags()
    assert {"text", "learning_rate", "seeds", "pool", "budget", "raw", "key_file", "engine", "offline"} <= set(flags)
    assert all(flag.name.startswith("--") for flag in flags.values())
    assert "file" not in flags, "an argument without a flag"


def test_errors_notes_and_logged_warnings_are_translated(realm_cli, monkeypatch) -> None:
    from realm.cli.terminal import note
    from realm.models import store

    def fail(*_: object, **__: object) -> None:
        note("a note on `use_gold`")
        logging.getLogger("realm.models").warning("a warning on `max_steps=3`")
        raise RealmError("an error of `learning_rate=-1`")

    monkeypatch.setattr(store, "models", fail)
    code, out, error = realm_cli("models")
    assert code == 2 and out == ""
    assert "a note on --use-gold\n" in error
    assert error.count("a warning on --steps 3\n") == 1
    assert "error: an error of --learning-rate -1\n" in error
