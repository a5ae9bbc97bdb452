"""A run's model on the Hugging Face hub: whether it may be pushed, asked before training, and the push itself.

What goes there is what the manifest lists under `model/`, the card with it: the files of a plain checkpoint. No other
file of a run is read here but its expertise, where the caller wants annotators named. The token is left to
`huggingface_hub`: it is never an argument, so that no setting, file or message of ours can hold it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.errors import RealmError
from realm.files import manifest_hashes
from realm.models.store import offline
from realm.runs import folder as layout

if TYPE_CHECKING:
    from realm.runs.run import Run

CARD = "README.md"
_HERE = re.compile(r'^folder = "\."  # where this card lies$', re.MULTILINE)
"""The line of the card's code that says where the model is (`snippet.py.jinja`)."""
_WHERE = "Set HF_TOKEN, or log in once with `hf auth login`"


class PushError(RealmError):
    """The upload failed, and the run is whole: `what` says so, without the remedy in Python."""

    def __init__(self, folder: Path, repo_id: str, reason: str) -> None:
        self.what = f"{repo_id}: the push to the Hugging Face hub failed ({reason}). The run in {folder} is whole"
        super().__init__(f"{self.what}; push it again: Run.open({str(folder)!r}).push_to_hub({repo_id!r}).")


def check_access(repo_id: str, argument: str) -> None:
    """Refuse what could not be pushed in the end: no network, no token or one that may not write, no such owner.

    `argument` is what messages call the id of the repository. Nothing is made on the hub.
    """
    named = f"`{argument}={repo_id}`"
    if offline():
        raise RealmError(
            f"{named}: nothing can be pushed while network calls are forbidden (`offline`, REALM_OFFLINE or "
            "HF_HUB_OFFLINE). Allow them, or leave it out and push the finished run later."
        )
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
        account: dict[str, Any] = HfApi().whoami()
    except HFValidationError:
        problem = "no id of a repository. Give `owner/name`: letters, digits, -, _ and . in both"
    except LocalTokenNotFoundError:
        problem = f"there is no token for the Hugging Face hub. {_WHERE}"
    except HfHubHTTPError as error:
        refused = error.response is not None and error.response.status_code in (401, 403)
        answer = f"answers with an error ({_reason(error)})"
        problem = f"the Hugging Face hub {f'refuses the token. {_WHERE} again' if refused else answer}"
    except Exception as error:  # what the client of another version raises where the network is down
        problem = f"the Hugging Face hub cannot be reached ({_reason(error)})"
    else:
        problem = _lacking_right(account, repo_id)
    if problem:
        raise RealmError(f"{named}: {problem}.")


def _lacking_right(account: dict[str, Any], repo_id: str) -> str:
    """What the account or its token may not do; empty where it may push."""
    token = (account.get("auth") or {}).get("accessToken") or {}
    if token.get("role") == "read":
        return f"the token may read and not write. Make one that may write, and: {_WHERE}"
    owner, slash, _ = repo_id.partition("/")
    owners = [str(account.get("name", "")), *(str(each.get("name", "")) for each in account.get("orgs") or ())]
    if slash and owner.lower() not in map(str.lower, owners):
        return f"the token is of {owners[0]}, who does not belong to {owner}. It may push to: {', '.join(owners)}"
    return ""


def push(run: Run, repo_id: str, *, private: bool, name_annotators: bool = False) -> str:
    """Upload the model and its card in one commit, and return the address; see `Run.push_to_hub`."""
    model = run.folder / layout.MODEL
    names = [name.removeprefix(f"{layout.MODEL}/") for name in manifest_hashes(run.folder) if name.startswith("model/")]
    card = (model / CARD).read_text(encoding="utf-8")
    if name_annotators:
        from realm.runs.model_card import annotator_section  # imports torch, which reading a run does not

        card += "\n" + annotator_section(run.expertise)
    try:
        from huggingface_hub import CommitOperationAdd, HfApi

        api = HfApi()
        repository = api.create_repo(repo_id, private=private, exist_ok=True)
        card = _HERE.sub(f'folder = "{repository.repo_id}"  # on the Hugging Face hub', card)
        uploads = [CommitOperationAdd(name, str(model / name)) for name in names if name != CARD]
        uploads.append(CommitOperationAdd(CARD, card.encode()))
        api.create_commit(repository.repo_id, uploads, commit_message="A model trained with REALM")
    except Exception as error:  # whatever it is, the training is not lost, and the user must be told so
        raise PushError(run.folder, repo_id, _reason(error)) from error
    return str(repository)


def _reason(error: Exception) -> str:
    """The first line of a client's message."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
