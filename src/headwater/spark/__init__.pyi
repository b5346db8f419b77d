from headwater.lake.spark_views import register as register
from headwater.spark.decoding import decode as decode

__all__: list[str]
