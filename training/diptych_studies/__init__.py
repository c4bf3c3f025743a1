"""Studies of the papers: their other systems, rivals and controls, trained small beside MSAC, and what operators cost.

The network of the closer look is trained here too, since only in a checkout can another take its place (`aligned`).

Variants are alike in all but one part, trained on a grid of runs and laid side by side; `benchmarks` compares Diptych
with other methods too. This package is in no wheel: a checkout that is installed has it, and nothing of the product
imports it.
"""
