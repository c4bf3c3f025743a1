"""People's answers about pairs: the pairs to ask about, tables of answers, and a calibration of one's own from them."""
