"""The durable head of a stream: an append-only log of batches, and the checkpoint it starts from."""

from headwater.log import checkpoint
from headwater.log.batch import Batch, StoredBatch, encode
from headwater.log.checkpoint import Checkpoint
from headwater.log.log import Log
from headwater.log.segment import Damage, Position

__all__ = ["Batch", "Checkpoint", "Damage", "Log", "Position", "StoredBatch", "checkpoint", "encode"]
