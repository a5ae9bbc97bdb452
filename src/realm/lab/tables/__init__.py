"""The paper's tables from a results file: each in its own shape, with the paper's figures beside ours."""
