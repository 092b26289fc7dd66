/* Search in an ascending row; included once per type of index. */

/* Where v stands, or would stand, in an ascending row. */
INLINE int64_t NAME(position)(const INDEX *row, int64_t length, int64_t v)
{
    int64_t low = 0, high = length;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (row[middle] < v) low = middle + 1;
        else high = middle;
    }
    return low;
}

INLINE int NAME(has)(const INDEX *row, int64_t length, int64_t v)
{
    int64_t at = NAME(position)(row, length, v);
    return at < length && row[at] == v;
}
