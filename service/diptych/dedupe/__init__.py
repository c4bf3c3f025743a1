"""Groups of pictures that show the same photo: candidates, pair scores, groups with a keeper, a report, and acts that
can be undone.

`from diptych import find_duplicates` takes folders or a collection.
"""
