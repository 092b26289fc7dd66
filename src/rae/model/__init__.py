"""The paper: sampling, encoder, pairs, losses, training, and the file of a fitted model."""
