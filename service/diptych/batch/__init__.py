"""Scoring whole tables of pairs.

`tables` reads and writes them. A `job` keeps a folder beside its output (`parts`): the manifest, the distinct pictures,
their tokens and the scores, in parts that `workers` make one by one, in this process, in a pool of processes or on a
cluster of Ray.
"""
