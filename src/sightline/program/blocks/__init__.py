"""The blocks of a model, one module each: their steps in forward order, for training and inference alike."""
