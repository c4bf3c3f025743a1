"""Fine-tuning of a released model on labelled pairs: the panel part and the trunk stay as they are, and what makes
logits of what the trunk saw learns.
"""
