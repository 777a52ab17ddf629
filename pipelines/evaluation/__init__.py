"""The parts of pipelines/paper.py: what the paper states, what is run here, and how both are shown."""
