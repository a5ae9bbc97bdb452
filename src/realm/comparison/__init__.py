"""Methods side by side over seeds: the experiment engine, significance and simulation.

(The package is not called `compare`, because `realm.compare` is the function.)

| module | what it is |
|---|---|
| `cells` | one training, described completely; its id; the data it trains on |
| `training` | training one cell, and what is recorded of it |
| `results` | the folder of finished cells |
| `grid` | training the cells that are missing: in this process, in several, on Ray |
| `significance` | tests paired over seeds and items, who is ahead on which figure, and that in sentences |
| `simulation` | simulated annotators of known accuracy; imports no torch |
| `compare` | the engine over one table of annotations |
"""
