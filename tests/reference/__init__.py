"""Dense oracles in plain numpy: what the library must agree with. Never imports multirel."""
