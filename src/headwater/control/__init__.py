"""The declared streams and consumers, and the account that runs them."""
