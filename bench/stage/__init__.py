"""What every bench stands on: private folders, recorded frames, fake agents, and the counting of CPU time."""
