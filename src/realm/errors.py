"""The one exception for mistakes that a person can mend."""

from __future__ import annotations


class RealmError(Exception):
    """Something in the input, the flags or the surroundings is wrong and the message says what to do about it.

    Commands print the message alone and end with exit code 2; a traceback is for our own mistakes.
    """
