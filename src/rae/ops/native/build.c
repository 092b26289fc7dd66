/* The loops of the graph builder: number ids, deal edges to stripes of rows, sort rows, renumber them.
 *
 * An end of an edge on its way into a row is one 64-bit key: the row within its stripe from bit ROW on, below it the
 * neighbour. Sorted, the keys of a stripe are its rows. Where edges have weights, directions or kinds, the lowest CHANNEL
 * bits of a key say which channel its weight belongs to, the neighbour stands above them, and the weights go along in an
 * array of their own.
 */
#ifndef INDEX
#include "common.h"

#define ROW 48
#define CHANNEL 5
#define CHANNELS (1 << CHANNEL)

/* present[id - low] = 1 for every id; the difference wraps as unsigned numbers do. */
EXPORT void mark_ids(const int64_t *ids, int64_t n, int64_t low, uint8_t *present)
{
    for (int64_t i = 0; i < n; i++) present[(uint64_t)ids[i] - (uint64_t)low] = 1;
}

/* Numbers become the sums of those before them: counts become where what was counted starts. */
INLINE void starts_of_counts(int64_t *counts, int64_t n)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t count = counts[i];
        counts[i] = total;
        total += count;
    }
}

/* cursor = where the keys of each digit start once they are sorted by it. */
INLINE void digit_starts(const int64_t *keys, int64_t n, int64_t shift, int64_t *cursor, int64_t digits)
{
    memset(cursor, 0, (size_t)digits * sizeof(int64_t));
    for (int64_t e = 0; e < n; e++) cursor[(keys[e] >> shift) & (digits - 1)]++;
    starts_of_counts(cursor, digits);
}

/* out = the keys, ascending in the bits from `shift` on that number the cursors, else in the order they had. */
EXPORT void sort_digit(
    const int64_t *restrict keys, int64_t n, int64_t shift, int64_t *restrict cursor, int64_t digits, int64_t *restrict out)
{
    int64_t mask = digits - 1;
    digit_starts(keys, n, shift, cursor, digits);
    for (int64_t e = 0; e < n; e++) out[cursor[(keys[e] >> shift) & mask]++] = keys[e];
}

/* The same for keys that have weights. */
EXPORT void sort_weighted_digit(
    const int64_t *restrict keys, const float *restrict weights, int64_t n, int64_t shift, int64_t *restrict cursor, int64_t digits,
    int64_t *restrict out, float *restrict out_weights)
{
    int64_t mask = digits - 1;
    digit_starts(keys, n, shift, cursor, digits);
    for (int64_t e = 0; e < n; e++) {
        int64_t at = cursor[(keys[e] >> shift) & mask]++;
        out[at] = keys[e];
        out_weights[at] = weights[e];
    }
}

#define TEMPLATE "build.c"
#include "templates.h"

#else /* the template, once per type of row number */

/* out[i] = the number of ids below ids[i]: those before its word of the bit table, and those within the word.
 * A bit and a half per id stays in the cache, where a plain table of 32 or 64 bits per id does not. */
VARIANTS EXPORT void NAME(look_up)(
    const int64_t *ids, int64_t n, int64_t low, const INDEX *before, const uint64_t *words, INDEX *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)ids[i] - (uint64_t)low, below = ((uint64_t)1 << (at & 63)) - 1;
        out[i] = before[at >> 6] + (INDEX)POPCOUNT(words[at >> 6] & below);
    }
}

/* ends[s], all zero before, becomes where the keys of stripe s start; the number of self-loops comes back. */
INLINE int64_t NAME(stripe_starts)(
    const INDEX *source, const INDEX *target, int64_t n, int64_t bits, int64_t *ends, int64_t stripes)
{
    int64_t loops = 0;
    for (int64_t e = 0; e < n; e++) {
        if (source[e] == target[e]) loops++;
        else {
            ends[source[e] >> bits]++;
            ends[target[e] >> bits]++;
        }
    }
    starts_of_counts(ends, stripes);
    return loops;
}

/* Both ends of every non-loop edge as keys, stripe after stripe of 2^bits rows; the number of self-loops comes back.
 * ends[s], all zero before, is where stripe s ends in `out`. */
EXPORT int64_t NAME(deal)(
    const INDEX *restrict source, const INDEX *restrict target, int64_t n, int64_t bits, int64_t *restrict ends, int64_t stripes,
    int64_t *restrict out)
{
    int64_t loops = NAME(stripe_starts)(source, target, n, bits, ends, stripes), below = ((int64_t)1 << bits) - 1;
    for (int64_t e = 0; e < n; e++) {
        int64_t u = source[e], v = target[e];
        if (u == v) continue;
        out[ends[u >> bits]++] = (u & below) << ROW | v;
        out[ends[v >> bits]++] = (v & below) << ROW | u;
    }
    return loops;
}

/* The same for edges with weights[e] and kinds[e]: keys say the channel, kind * directions for the source and the last
 * one of the kind for the target; out_weights go along with them. */
EXPORT int64_t NAME(deal_weighted)(
    const INDEX *restrict source, const INDEX *restrict target, const float *restrict weights, const float *restrict kinds,
    int64_t directions, int64_t n, int64_t bits, int64_t *restrict ends, int64_t stripes, int64_t *restrict out,
    float *restrict out_weights)
{
    int64_t loops = NAME(stripe_starts)(source, target, n, bits, ends, stripes), below = ((int64_t)1 << bits) - 1;
    for (int64_t e = 0; e < n; e++) {
        int64_t u = source[e], v = target[e], channel = (int64_t)kinds[e] * directions;
        if (u == v) continue;
        int64_t at = ends[u >> bits]++, there = ends[v >> bits]++;
        out[at] = (u & below) << ROW | v << CHANNEL | channel;
        out[there] = (v & below) << ROW | u << CHANNEL | (channel + directions - 1);
        out_weights[at] = out_weights[there] = weights[e];
    }
    return loops;
}

/* out = the neighbours of rows first, first + 1, ..., each once; their number comes back, lengths[i] of row i.
 * The keys have neighbours ascending; `ends` is all zero before. */
EXPORT int64_t NAME(fill_rows)(
    const int64_t *restrict keys, int64_t n, int64_t first, int64_t *restrict ends, int64_t rows, int64_t *restrict lengths,
    INDEX *restrict out)
{
    int64_t size = 0, at = 0;
    for (int64_t e = 0; e < n; e++) ends[(keys[e] >> ROW) - first]++;
    starts_of_counts(ends, rows);
    for (int64_t e = 0; e < n; e++) out[ends[(keys[e] >> ROW) - first]++] = (INDEX)(keys[e] & (((int64_t)1 << ROW) - 1));
    for (int64_t i = 0; i < rows; i++) {
        int64_t row_start = size;
        for (; at < ends[i]; at++)
            if (size == row_start || out[at] != out[size - 1]) out[size++] = out[at];
        lengths[i] = size - row_start;
    }
    return size;
}

/* The same for keys with weights: out_weights[c * stride + i] is the sum, or the largest, of the weights of channel c of
 * neighbour i, added in the order of the keys, 0 where there is none; `slots` counts those that there are. `spare` has
 * room for the keys and weights by rows. */
EXPORT int64_t NAME(fill_weighted_rows)(
    const int64_t *restrict keys, const float *restrict weights, int64_t n, int64_t first, int64_t *restrict ends, int64_t rows,
    int64_t *restrict lengths, int64_t *restrict spare, float *restrict spare_weights, int64_t channels, int64_t largest,
    INDEX *restrict out, float *restrict out_weights, int64_t stride, int64_t *restrict slots)
{
    int64_t size = 0, at = 0, filled = 0;
    for (int64_t e = 0; e < n; e++) ends[(keys[e] >> ROW) - first]++;
    starts_of_counts(ends, rows);
    for (int64_t e = 0; e < n; e++) {
        int64_t to = ends[(keys[e] >> ROW) - first]++;
        spare[to] = keys[e] & (((int64_t)1 << ROW) - 1);
        spare_weights[to] = weights[e];
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t row_start = size;
        while (at < ends[i]) {
            int64_t v = spare[at] >> CHANNEL;
            double values[CHANNELS];
            for (int64_t c = 0; c < channels; c++) values[c] = 0;
            uint32_t present = 0;
            for (; at < ends[i] && spare[at] >> CHANNEL == v; at++) {
                int64_t c = spare[at] & (CHANNELS - 1);
                double value = spare_weights[at];
                values[c] = largest ? MAX(values[c], value) : values[c] + value;
                present |= (uint32_t)1 << c;
            }
            for (int64_t c = 0; c < channels; c++) {
                out_weights[c * stride + size] = (float)values[c];
                filled += (present >> c) & 1;
            }
            out[size++] = (INDEX)v;
        }
        lengths[i] = size - row_start;
    }
    *slots = filled;
    return size;
}

/* out = all nodes: each start not yet visited, then the nodes connected with it, nearest first. */
EXPORT void NAME(breadth_first)(
    const int64_t *offsets, const INDEX *targets, const INDEX *starts, int64_t n, uint8_t *visited, INDEX *out)
{
    int64_t at = 0, end = 0;
    for (int64_t i = 0; i < n; i++) {
        if (visited[starts[i]]) continue;
        visited[starts[i]] = 1;
        out[end++] = starts[i];
        for (; at < end; at++)
            for (int64_t e = offsets[out[at]]; e < offsets[out[at] + 1]; e++)
                if (!visited[targets[e]]) {
                    visited[targets[e]] = 1;
                    out[end++] = targets[e];
                }
    }
}

DEFINE_SORT(NAME(sort_row), INDEX)

/* Rows start..stop of the graph whose row i is row order[i] of this one; row i begins at starts[i] - starts[0]. */
EXPORT void NAME(relabel_rows)(
    const int64_t *offsets, const INDEX *targets, const INDEX *order, const INDEX *rank, const int64_t *starts, INDEX *out,
    int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        INDEX *row = out + (starts[i] - starts[0]);
        int64_t low = offsets[order[i]], count = offsets[order[i] + 1] - low;
        for (int64_t j = 0; j < count; j++) row[j] = rank[targets[low + j]];
        NAME(sort_row)(row, count);
    }
}
#endif
