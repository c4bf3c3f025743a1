"""Classifiers of single pictures: the networks of section 6 of the MSAC paper, trained on folders of classes."""
