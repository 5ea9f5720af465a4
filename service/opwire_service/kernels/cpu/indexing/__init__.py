"""Elements and slices that are picked, written or turned round by index."""
