"""Objects in a bucket: what an object store promises, and the client of S3, GCS, Azure and local folders."""
