"""A run's model on the Hugging Face hub: whether it may be pushed, asked before training, and the push itself.

The files that the manifest lists under `model/` go there, with the card. The token is left to `huggingface_hub`: it is
never an argument, so that no setting, file or message of ours can hold it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from realm.errors import RealmError
from realm.files import manifest_hashes
from realm.models.store import offline
from realm.runs.folder import MODEL

if TYPE_CHECKING:
    from realm.runs.run import Run

CARD = "README.md"
_HERE = 'folder = "."  # where this card lies'
"""The line of the card's code that says where the model is (`snippet.py.jinja`)."""


class PushError(RealmError):
    """The upload failed, and the run is whole: `what` says so, without the remedy in Python."""

    def __init__(self, folder: Path, repo_id: str, reason: str) -> None:
        self.what = f"{repo_id}: the push to the Hugging Face hub failed ({reason}). The run in {folder} is whole"
        super().__init__(f"{self.what}; push it again: Run.open({str(folder)!r}).push_to_hub({repo_id!r}).")


def check_access(repo_id: str, argument: str) -> None:
    """Refuse what could not be pushed in the end: no network, no token or one that may not write, no such owner.

    `argument` is what messages call the id of the repository. Nothing is made on the hub.
    """
    if offline():
        raise RealmError(
            f"`{argument}={repo_id}`: nothing can be pushed while network calls are forbidden (`offline`, "
            "REALM_OFFLINE or HF_HUB_OFFLINE). Allow them, or leave it out and push the finished run later."
        )
    from huggingface_hub import HfApi
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
        account = HfApi().whoami()
    except Exception as error:  # an id that is none, no token or a wrong one, and whatever a client raises offline
        problem = f"the Hugging Face hub does not let us push there ({_reason(error)})"
    else:
        owners = [str(each.get("name", "")) for each in (account, *(account.get("orgs") or ()))]
        owner, slash, _ = repo_id.partition("/")
        problem = ""
        if ((account.get("auth") or {}).get("accessToken") or {}).get("role") == "read":
            problem = "the token may read and not write"
        elif slash and owner.lower() not in map(str.lower, owners):
            problem = f"the token is of {owners[0]}, who may push to: {', '.join(owners)}"
    if problem:
        raise RealmError(f"`{argument}={repo_id}`: {problem}. Set HF_TOKEN, or log in once with `hf auth login`.")


def push(run: Run, repo_id: str, *, private: bool) -> str:
    """Upload the model and its card in one commit, and return the address; see `Run.push_to_hub`."""
    model = run.folder / MODEL
    names = [name.removeprefix(f"{MODEL}/") for name in manifest_hashes(run.folder) if name.startswith(f"{MODEL}/")]
    card = (model / CARD).read_text(encoding="utf-8")
    try:
        from huggingface_hub import CommitOperationAdd, HfApi

        api = HfApi()
        repository = api.create_repo(repo_id, private=private, exist_ok=True)
        card = card.replace(_HERE, f'folder = "{repository.repo_id}"  # on the Hugging Face hub')
        uploads = [CommitOperationAdd(name, str(model / name)) for name in names if name != CARD]
        uploads.append(CommitOperationAdd(CARD, card.encode()))
        api.create_commit(repository.repo_id, uploads, commit_message="A model trained with REALM")
    except Exception as error:  # whatever it is, the training is not lost, and the user must be told so
        raise PushError(run.folder, repo_id, _reason(error)) from error
    return str(repository)


def _reason(error: Exception) -> str:
    """The first line of a client's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
