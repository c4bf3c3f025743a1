"""Keeping a collection in step with folders that change."""
