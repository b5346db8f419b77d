"""The rules that a published message meets before it is stored."""
