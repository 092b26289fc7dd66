"""Files and memory: atomic writes, locks, part files, buffers that spill to disk."""
