"""Moving, converting, gathering and selecting elements on the GPU."""
