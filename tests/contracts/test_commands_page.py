"""A flag is stated once, in its command: the page of the docs that lists them all is made of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from realm.cli.main import app
from tests.contracts.commands_page import commands_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"


def test_the_docs_have_every_command_and_flag() -> None:
    """Written anew by: python -m tests.contracts.test_commands_page"""
    assert PAGE.read_text(encoding="utf-8") == commands_page(), "python -m tests.contracts.test_commands_page"


def test_no_command_and_no_flag_is_left_out() -> None:
    page = commands_page()

    def check(command: typer.core.TyperCommand, path: str) -> None:
        for name, each in getattr(command, "commands", {}).items():
            check(each, f"{path} {name}")
        if not getattr(command, "commands", None):
            assert f"## {path}\n" in page
        for option in command.params:
            if option.param_type_name == "option" and option.name not in (
                "help_all",
                "install_completion",
                "show_completion",
            ):
                assert all(f"`{name}" in page for name in [*option.opts, *option.secondary_opts]), option.opts

    check(typer.main.get_command(app), "realm")


def test_a_new_flag_is_a_row() -> None:
    small = typer.Typer()

    @small.callback()
    def root() -> None: ...

    @small.command()
    def paint(
        file: Annotated[Path, typer.Argument(metavar="WALL", help="What to paint.")],
        colour: Annotated[str, typer.Option(metavar="NAME", help="Red | blue.")] = "red",
        twice: Annotated[bool, typer.Option("--twice/--once", help="Two coats.", rich_help_panel="Coats")] = True,
    ) -> None:
        """Paint a wall.

        And let it dry.
        """

    page = commands_page(small)
    assert "## realm paint\n\nPaint a wall.\n\nAnd let it dry.\n\n    realm paint WALL ...\n" in page
    assert "| `WALL` | What to paint. |" in page
    assert "| `--colour NAME` | `red` | Red \\| blue. |" in page
    assert (
        "**Coats**\n\n| flag | default | what it does |\n|---|---|---|\n| `--twice`, `--once` | on | Two coats. |"
        in page
    )


def test_flags_that_two_commands_share_stand_once() -> None:
    page = commands_page()
    assert page.count("Column with the annotator.") == 1 and "As for [realm check](#realm-check)." in page


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
