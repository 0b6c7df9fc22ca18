"""From a task to a plan: everything about a run is decided and checked before anything is started."""
