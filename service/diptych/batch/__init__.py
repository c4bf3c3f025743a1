"""Scoring whole tables of pairs.

`tables` and `arrow` read them, `writers` write them with their `scores`; `stream` does so as it goes. A `job` keeps a
folder beside its output: the `manifest`, the distinct pictures (`naming`), their `tokens` and the scores, in parts that
the functions of `work` make one by one, in this process, in a `pool` of processes or on a Ray `cluster`.
"""
