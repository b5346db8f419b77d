"""Pages for people and programs that look after an engine."""
