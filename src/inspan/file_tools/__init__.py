"""Files beneath one folder, and nothing else: what `inspan file-tools` does for an agent that may use no other tool."""
