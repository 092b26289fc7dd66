"""The hot loops as operations: arrays in, arrays out; threads, tiles and buffers are inside.

    gather     means and sums of rows that an index names
    dense      products, BatchNorm, tanh, dropout
    sampling   neighbours, pairs and walks drawn by hashing
    structure  degrees, triangles, 4-cycles, core numbers
    build      numbering ids and writing rows of a graph
    edits      what changed edges change: rows and counts
    distances  squared distances of pairs of rows
    nearest    the exact search
    layout     the points of a map
    charfun    characteristic functions

Where the data lies decides what runs: the compiled library (`library`) in main memory, Triton's kernels (`kernels`,
launched by `device`) on a GPU, and `reference`, plain torch, for all that has neither. A faster version for a device
is added inside an operation; no caller changes.
"""
