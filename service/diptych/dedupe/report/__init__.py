"""One HTML file with everything in it: the groups as pictures, a threshold to move, a selection to save."""
