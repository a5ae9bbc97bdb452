"""Methods side by side over seeds: the experiment engine, significance and simulation.

(The package is not called `compare`, because `realm.compare` is the function.)
"""
