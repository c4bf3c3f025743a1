"""Studies of one part of a network each: variants alike in all but that part, trained on a grid of runs, laid side by
side.
"""
