"""A seeded simulation of a whole engine: real parts, a disk that breaks, virtual time, a model beside it."""
