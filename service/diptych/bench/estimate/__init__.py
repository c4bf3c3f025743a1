"""`diptych estimate N`: what N pictures cost, from what one of each costs on this machine."""
