"""Groups of pictures that show the same photo: candidates, pair scores, groups with a keeper, a report, and acts that
can be undone.

`from diptych import find_duplicates` works on records and knows neither folders nor the command line.
"""
