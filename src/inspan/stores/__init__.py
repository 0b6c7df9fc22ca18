"""Where runs are kept: a folder per run with its log, and an index that can always be rebuilt from the folders."""
