"""Out into the world: a fitted model as ONNX or SQL, its vectors in Lance, DuckDB, PostgreSQL or Qdrant."""
