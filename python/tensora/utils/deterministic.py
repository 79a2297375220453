"""Settings of deterministic mode."""

fill_uninitialized_memory = False  # PyTorch's name: `empty` is never filled here, so that setting it changes nothing
