"""Methods side by side over seeds: the experiment engine, significance and simulation.

(The package is not called `compare`, because `realm.compare` is the function.)

| module | what it is |
|---|---|
| `cells` | one training, described completely; its id; the data it trains on |
| `training` | training one cell, and what is recorded of it |
| `shared_scorer` | one loaded model for all cells of a process |
| `results` | the SQLite file of finished cells |
| `engines`, `grid` | where cells are trained, and training those that are missing |
| `significance` | paired tests and counts of wins |
| `ranking`, `verdict` | who is ahead on which figure and label, whether anybody is best, and that in sentences |
| `simulation` | simulated annotators of known accuracy; imports no torch |
| `compare` | the engine over one table of annotations |
"""
