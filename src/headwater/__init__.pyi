from headwater.errors import Error as Error
from headwater.lake.lake import Lake as Lake
from headwater.lake.lake import StoredStream as StoredStream
from headwater.lake.scanning import read as read
from headwater.lake.scanning import scan as scan

__version__: str

__all__: list[str]
