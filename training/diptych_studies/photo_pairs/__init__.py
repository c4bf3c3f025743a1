"""The study of the pair part on photos: every mixer over the tokens of one released panel part, computed once."""
