"""Cleaned labels back into Label Studio: tasks with predictions, in the JSON that its Import button takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = tuple[str, str, str, float | None]


def label_studio_tasks(
    rows: Iterable[Row],
    *,
    control: str = "label",
    text: str = "text",
    to_name: str = "text",
    model_version: str = "realm",
) -> list[dict[str, Any]]:
    """Tasks to import, each with one prediction that annotators see as the pre-filled answer.

    Args:
        rows: (item id, text, label, confidence) of each item; the confidence is None where it is not known.
        control: name of the project's Choices tag.
        text: the data field that the project shows, `$text` in its labelling interface.
        to_name: name of the tag that shows it.
        model_version: what Label Studio calls the source of the predictions.

    Example:
        >>> label_studio_tasks([("7", "A joy.", "Positive", 0.97)], control="sentiment")[0]["predictions"][0]["score"]
        0.97
    """
    return [
        {
            "data": {text: shown, "item": item},
            "predictions": [
                {
                    "model_version": model_version,
                    **({} if confidence is None else {"score": float(confidence)}),
                    "result": [
                        {
                            "id": f"realm{number}",
                            "from_name": control,
                            "to_name": to_name,
                            "type": "choices",
                            "value": {"choices": [label]},
                        }
                    ],
                }
            ],
        }
        for number, (item, shown, label, confidence) in enumerate(rows, 1)
    ]
