"""Images as columns of blocks, and back."""
