"""The hot loops as operations: arrays in, arrays out; threads, tiles and buffers are inside.

    gather     means and sums of rows that an index names
    dense      products, BatchNorm, tanh, dropout
    sampling   neighbours, pairs and walks drawn by hashing
    structure  degrees, triangles, 4-cycles, core numbers
    build      numbering ids and writing rows of a graph

Where the data lies decides what runs: the compiled library in main memory, `reference` (plain torch) on any other
device. A faster version for a device is added inside an operation; no caller changes.
"""
