"""The cost of operators and of networks made of them: time, memory, floating-point operations, parameters."""
