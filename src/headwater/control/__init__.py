"""What is declared, and keeping what runs true to it."""
