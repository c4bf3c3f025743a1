"""What a part of a network buys: variants alike in all but that part, trained on a grid of runs, laid side by side."""
