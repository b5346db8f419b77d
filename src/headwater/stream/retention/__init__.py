"""What a stream removes, and what it keeps for others."""
