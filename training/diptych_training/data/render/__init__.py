"""Pictures of things that were never photographed: photos as textures on cartons, cans, books, paper and bags.

`draw_things` makes things, `draw_lookalikes` their lookalikes, `render_things` a picture of each from a drawn side,
with the place of every pixel on the thing: two pictures of one thing are a pair with a true change of viewpoint.
"""
