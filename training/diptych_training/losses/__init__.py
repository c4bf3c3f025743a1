"""The network that says what is lost where one of two copies goes, trained on versions of one picture."""
