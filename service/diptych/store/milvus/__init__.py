"""Pictures on a Milvus server, in front of which any number of services read and write at once."""
