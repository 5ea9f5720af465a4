"""Elements between elements: resampling, and regions of interest."""
