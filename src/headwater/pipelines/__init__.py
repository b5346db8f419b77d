"""What the engine decides about pipelines: declared, checked, run by a process of their own, watched."""
