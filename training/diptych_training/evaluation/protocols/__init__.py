"""The protocols of evaluation, one a module, and the gallery and the trials that they share."""
