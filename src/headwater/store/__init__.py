"""A store that no engine serves: checked without changing it, and repaired without losing anything."""
