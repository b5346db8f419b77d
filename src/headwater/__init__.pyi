from headwater.client.async_client import AsyncClient as AsyncClient
from headwater.client.catch_up import CatchUpError as CatchUpError
from headwater.client.connecting import PendingClient as PendingClient
from headwater.client.connecting import connect as connect
from headwater.client.stream_info import StreamInfo as StreamInfo
from headwater.client.stream_info import UpstreamGap as UpstreamGap
from headwater.client.stream_info import UpstreamInfo as UpstreamInfo
from headwater.client.sync_client import SyncClient as SyncClient
from headwater.engine import LocalEngine as LocalEngine
from headwater.engine import serve as serve
from headwater.errors import Error as Error
from headwater.lake.lake import Lake as Lake
from headwater.lake.lake import StoredStream as StoredStream
from headwater.lake.scanning import read as read
from headwater.lake.scanning import scan as scan
from headwater.model.progress import Phase as Phase

__version__: str

__all__: list[str]
