"""Windows that are added up, and what is put back where a window was."""
