"""Little scenes drawn by the program: the demonstration collection's pictures, their look-alikes and edited copies."""
