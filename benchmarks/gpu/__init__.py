"""All that is asked of a machine with a GPU, in one command: ``make gpu``."""
