from headwater.spark.decoding import decode as decode

__all__: list[str]
