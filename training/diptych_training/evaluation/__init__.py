"""Measures models on tasks, first stage and re-ranked together, through the runtime that serves. No torch."""
