"""What operators and the networks made of them cost: time, memory, floating-point operations, parameters."""
