"""What the comparison with unused gold says, in words: `realm train` and `realm aggregate` show it."""

from __future__ import annotations

from realm.crowd.against_gold import ENOUGH, AgainstGold


def gold_sentences(against: AgainstGold) -> list[str]:
    """How many labels are right, how many sure ones are wrong, and how the accuracies did."""
    others = f"base rate {against.base_rate:.1%}"
    if against.majority_right is not None:
        others = f"majority vote {against.majority_right:.1%}, {others}"
    text = f"{against.right:.1%} of the {against.items:,} labels with gold are right (gold was not used); {others}."
    if against.macro_f1 is not None:
        majority = f", of the majority vote {against.majority_macro_f1:.3f}" if against.majority_macro_f1 else ""
        text += f" Macro-F1 {against.macro_f1:.3f}{majority}."
    sentences = [text]
    if parts := [
        f"{sure.wrong:,} of the {sure.labels:,} with confidence {sure.confidence:g} or more "
        f"({sure.expected:.1f} expected)"
        for sure in against.sure
        if sure.labels
    ]:
        sentences.append(f"Wrong labels: {'; '.join(parts)}.")
    if against.annotators:
        ranking = "" if against.spearman is None else f"rank correlation {against.spearman:.2f}, "
        sample = "" if against.all_labels else ", which is itself measured on a part of their labels"
        sentences.append(
            f"Estimated accuracies of the {against.annotators:,} annotators with {ENOUGH} labels or more on these "
            f"items, against gold: {ranking}{against.held:,} of {against.annotators:,} 95% intervals "
            f"({against.held / against.annotators:.0%}) hold the true one{sample}."
        )
    return sentences
