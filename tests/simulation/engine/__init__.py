"""A seeded simulation of a whole engine: real parts, a disk that fails, virtual time, and a model."""
