"""Kinds of pictures with copies planted in them: what a closer look is fitted to, and what models are measured on."""
