/* Structure of a node's surroundings: degrees of its neighbours, triangles, 4-cycles, core numbers. */
#ifndef INDEX
#include "common.h"

DEFINE_SORT(sort_floats, float)

#define LIST_DRAWS 8 /* of a list of neighbours, where common ones are estimated */
#define ROWS_AHEAD 4 /* that are asked for while others are counted */
#define SCAN 4 /* times the paths from a node: if there are more than counters, all of these are looked through */

/* Counter i of 1, 2, 4 or 8 bytes each. */
INLINE uint64_t counter(const void *counters, int bytes, int64_t i)
{
    if (bytes == 1) return ((const uint8_t *)counters)[i];
    if (bytes == 2) return ((const uint16_t *)counters)[i];
    return bytes == 4 ? ((const uint32_t *)counters)[i] : ((const uint64_t *)counters)[i];
}

INLINE void put_counter(void *counters, int bytes, int64_t i, uint64_t value)
{
    if (bytes == 1) ((uint8_t *)counters)[i] = (uint8_t)value;
    else if (bytes == 2) ((uint16_t *)counters)[i] = (uint16_t)value;
    else if (bytes == 4) ((uint32_t *)counters)[i] = (uint32_t)value;
    else ((uint64_t *)counters)[i] = value;
}

/* counts[u], sums[u]: how many weights of row u are above 0, and their sum. */
EXPORT void strengths(
    const int64_t *offsets, const float *weights, int64_t *counts, double *sums, int64_t start, int64_t stop)
{
    for (int64_t u = start; u < stop; u++) {
        int64_t count = 0;
        double sum = 0;
        for (int64_t e = offsets[u]; e < offsets[u + 1]; e++) {
            count += weights[e] > 0;
            sum += weights[e];
        }
        counts[u] = count;
        sums[u] = sum;
    }
}

#define TEMPLATE "structure.c"
#include "templates.h"

#else /* the template, once per type of index */

INLINE int64_t NAME(degree)(const int64_t *offsets, int64_t u) { return offsets[u + 1] - offsets[u]; }

DEFINE_SORT(NAME(sort_ranks), INDEX)

/* out[i] of node nodes[i], or first + i: its degree, then its neighbours' degrees, largest first, `cap` at most, then 0.
 * Above the cap: `random` samples neighbours, else evenly spaced order statistics remain. 0, or -1 without memory. */
EXPORT int64_t NAME(neighbor_degrees)(
    const int64_t *offsets, const INDEX *targets, const int64_t *nodes, int64_t first, int64_t cap, int64_t random, uint64_t key,
    float *out, int64_t start, int64_t stop)
{
    int64_t most = 1;
    for (int64_t i = start; i < stop; i++) most = MAX(most, NAME(degree)(offsets, nodes ? nodes[i] : first + i));
    float *values = malloc((size_t)most * sizeof(float));
    if (!values) return -1;
    for (int64_t i = start; i < stop; i++) {
        int64_t u = nodes ? nodes[i] : first + i, low = offsets[u], count = NAME(degree)(offsets, u);
        float *row = out + i * (1 + cap);
        memset(row, 0, (size_t)(1 + cap) * sizeof(float));
        row[0] = (float)count;
        for (int64_t j = 0; j < count; j++) values[j] = (float)NAME(degree)(offsets, targets[low + j]);
        if (count > cap && random) {
            uint64_t state = stream(key, u, 0);
            for (int64_t j = 0; j < cap; j++) { /* the first steps of a Fisher-Yates shuffle */
                int64_t pick = j + draw(state, j, count - j);
                float value = values[j];
                values[j] = values[pick];
                values[pick] = value;
            }
            count = cap;
        }
        sort_floats(values, count);
        for (int64_t j = 0; j < MIN(count, cap); j++) {
            int64_t at = count > cap && cap > 1 ? (2 * j * (count - 1) + (cap - 1)) / (2 * (cap - 1)) : j;
            row[1 + j] = values[count - 1 - at];
        }
    }
    free(values);
    return 0;
}

/* Paths of two edges that counting cycles looks at: each edge from its end of higher degree, rows start..stop. */
EXPORT int64_t NAME(count_paths)(const int64_t *offsets, const INDEX *targets, int64_t start, int64_t stop)
{
    int64_t total = 0;
    for (int64_t u = start; u < stop; u++) {
        int64_t own = NAME(degree)(offsets, u);
        for (int64_t e = offsets[u]; e < offsets[u + 1]; e++) {
            int64_t other = NAME(degree)(offsets, targets[e]);
            total += other <= own ? other : 0;
        }
    }
    return total;
}

/* Rows start..stop of a graph, renumbered by rank and ascending; row u goes to starts[rank[u]]. */
EXPORT void NAME(ranked_rows)(
    const int64_t *offsets, const INDEX *targets, const INDEX *rank, const int64_t *starts, INDEX *out, int64_t start,
    int64_t stop)
{
    for (int64_t u = start; u < stop; u++) {
        INDEX *row = out + starts[rank[u]];
        int64_t low = offsets[u], count = NAME(degree)(offsets, u);
        for (int64_t j = 0; j < count; j++) row[j] = rank[targets[low + j]];
        NAME(sort_ranks)(row, count);
    }
}

/* Triangles and 4-cycles whose last corner is u, added to counts[2 v] and counts[2 v + 1] of all their corners v.
 *
 * Rows are ordered by degree and ascending inside, so u, v, w with v and w before u are all the paths that may close;
 * those v are targets[offsets[u]..high]. paths[w] counts the paths from u to w: p of them, by different v, are p (p - 1) / 2
 * cycles, and each v is in p - 1; its highest bit says that w is next to u, so that each path to it closes a triangle.
 * A counter has `bytes` bytes: as few as hold the number of v, so that more of them are in the cache. Where there are
 * many paths, `scan`, counters are looked through in order, else those in `ends`. All are 0 before and after. */
INLINE void NAME(cycles_of)(
    int bytes, int scan, const int64_t *offsets, const INDEX *targets, int64_t u, int64_t high, void *restrict paths,
    INDEX *restrict ends, int64_t *restrict stops, int64_t *restrict counts)
{
    const uint64_t adjacent = 1ull << (8 * bytes - 1);
    int64_t low = offsets[u], n_ends = 0, closed = 0, all = 0;
    for (int64_t e = low; e < high; e++) put_counter(paths, bytes, targets[e], adjacent);
    for (int64_t e = low; e < high; e++) {
        int64_t f = offsets[targets[e]], last = offsets[targets[e] + 1];
        if (e + ROWS_AHEAD < high) PREFETCH(targets + offsets[targets[e + ROWS_AHEAD]], 3);
        for (; f < last && targets[f] < u; f++) {
            uint64_t p = counter(paths, bytes, targets[f]);
            put_counter(paths, bytes, targets[f], p + 1);
            if (!scan) {
                ends[n_ends] = targets[f];
                n_ends += !(p & ~adjacent);
            }
        }
        stops[e - low] = f;
    }
    for (int64_t e = low; e < high; e++) {
        int64_t v = targets[e], cycles = offsets[v] - stops[e - low], triangles = 0;
        for (int64_t f = offsets[v]; f < stops[e - low]; f++) {
            uint64_t p = counter(paths, bytes, targets[f]);
            cycles += (int64_t)(p & ~adjacent);
            triangles += p >= adjacent;
        }
        counts[2 * v] += triangles;
        counts[2 * v + 1] += cycles;
        closed += triangles;
    }
    for (int64_t i = 0; i < (scan ? u : n_ends); i++) {
        int64_t w = scan ? i : ends[i], p = (int64_t)(counter(paths, bytes, w) & ~adjacent);
        if (!scan) put_counter(paths, bytes, w, 0);
        if (p < 2) continue;
        all += p * (p - 1) / 2;
        counts[2 * w + 1] += p * (p - 1) / 2;
    }
    if (scan) memset(paths, 0, (size_t)(u * bytes));
    else for (int64_t e = low; e < high; e++) put_counter(paths, bytes, targets[e], 0);
    counts[2 * u] += closed / 2; /* each was found by both of the other corners */
    counts[2 * u + 1] += all;
}

/* Add to counts, (n, 2), the triangles and 4-cycles found at their last corner: rows start, start + step, ... below n.
 *
 * Edges are looked at from their end of higher degree, so hubs cost no more than others (Chiba and Nishizeki). A count
 * above 2^63 needs more than 10^11 paths from one node, hours of work. 0, or -1 without memory. */
EXPORT int64_t NAME(count_cycles)(
    const int64_t *offsets, const INDEX *targets, int64_t n, int64_t *counts, int64_t start, int64_t step)
{
    int64_t most = 1;
    for (int64_t u = start; u < n; u += step) most = MAX(most, NAME(degree)(offsets, u));
    void *paths = calloc((size_t)n, sizeof(INDEX));
    INDEX *ends = malloc((size_t)(n + 1) * sizeof(INDEX));
    int64_t *stops = malloc((size_t)most * sizeof(int64_t)), failed = !paths || !ends || !stops;
    for (int64_t u = start; !failed && u < n; u += step) {
        int64_t high = offsets[u], bound = 0;
        for (; high < offsets[u + 1] && targets[high] < u; high++) bound += NAME(degree)(offsets, targets[high]);
        int64_t count = high - offsets[u], scan = SCAN * bound > u;
#define CYCLES(bytes, scan) NAME(cycles_of)(bytes, scan, offsets, targets, u, high, paths, ends, stops, counts)
        if (count < 2) continue;
        if (count < 1 << 7 && !scan) CYCLES(1, 0);
        else if (count < 1 << 7) CYCLES(1, 1);
        else if (count < 1 << 15 && !scan) CYCLES(2, 0);
        else if (count < 1 << 15) CYCLES(2, 1);
        else CYCLES(sizeof(INDEX), 1);
#undef CYCLES
    }
    free(paths);
    free(ends);
    free(stops);
    return failed ? -1 : 0;
}

/* Common neighbours of v and w besides u, from `draws` of the shorter list, or all of it where that is no longer. */
INLINE double NAME(common_neighbors)(
    const int64_t *offsets, const INDEX *targets, int64_t u, int64_t v, int64_t w, uint64_t state, int64_t draws)
{
    if (offsets[v + 1] - offsets[v] > offsets[w + 1] - offsets[w]) {
        int64_t other = v;
        v = w;
        w = other;
    }
    int64_t low = offsets[v], length = offsets[v + 1] - low, count = 0;
    int64_t looks = MIN(length, draws);
    for (int64_t i = 0; i < looks; i++) {
        int64_t x = targets[low + (length <= draws ? i : draw(state, i, length))];
        count += x != u && NAME(has)(targets + offsets[w], offsets[w + 1] - offsets[w], x);
    }
    return (double)count * (double)length / (double)MAX(looks, 1);
}

/* triangles[u], cycles[u]: estimates from `draws` pairs of neighbours of u, by a hash of (key, u); all pairs where there
 * are no more. A pair that is adjacent makes a triangle, each common neighbour of a pair a 4-cycle. */
EXPORT void NAME(estimate_cycles)(
    const int64_t *offsets, const INDEX *targets, uint64_t key, int64_t draws, double *triangles, double *cycles,
    int64_t start, int64_t stop)
{
    for (int64_t u = start; u < stop; u++) {
        int64_t low = offsets[u], degree = offsets[u + 1] - low;
        double pairs = 0.5 * (double)degree * (double)(degree - 1), closed = 0, across = 0;
        int64_t all = pairs <= (double)draws, looks = all ? (int64_t)pairs : draws, i = 0, j = 0;
        uint64_t state = stream(key, u, 0);
        for (int64_t t = 0; t < looks; t++) {
            if (all) {
                if (++j == degree) j = ++i + 1;
            } else {
                i = draw(state, 2 * t, degree);
                j = draw(state, 2 * t + 1, degree - 1);
                j += j >= i;
            }
            int64_t v = targets[low + i], w = targets[low + j];
            int64_t by_v = offsets[v + 1] - offsets[v] <= offsets[w + 1] - offsets[w];
            int64_t shorter = by_v ? v : w, other = by_v ? w : v;
            closed += NAME(has)(targets + offsets[shorter], offsets[shorter + 1] - offsets[shorter], other);
            across += NAME(common_neighbors)(offsets, targets, u, v, w, stream(key, u, t + 1), all ? draws : LIST_DRAWS);
        }
        double share = pairs / (double)MAX(looks, 1);
        triangles[u] = closed * share;
        cycles[u] = across * share;
    }
}

/* One row of a noisy copy of a graph: the neighbours whose edge stays, and those of `added`, ascending, each once. The
 * hash of an edge is the same from both ends; it stays where the hash is not below `threshold`. -> their number */
INLINE int64_t NAME(view_row)(
    const int64_t *offsets, const INDEX *targets, const int64_t *added, const INDEX *also, uint64_t key, uint64_t threshold,
    int64_t u, INDEX *out)
{
    int64_t count = 0, e = offsets[u], f = added[u], end = offsets[u + 1], end_also = added[u + 1];
    while (e < end || f < end_also) {
        int64_t v;
        if (f == end_also || (e < end && targets[e] < also[f])) {
            v = targets[e++];
            if (stream(key, MIN(u, v), MAX(u, v)) < threshold) continue;
        } else {
            v = also[f++];
            if (e < end && targets[e] == v) e++;
        }
        if (out) out[count] = (INDEX)v;
        count++;
    }
    return count;
}

/* out[u + 1] = neighbours of u in the copy. */
EXPORT void NAME(view_counts)(
    const int64_t *offsets, const INDEX *targets, const int64_t *added, const INDEX *also, uint64_t key, uint64_t threshold,
    int64_t *out, int64_t start, int64_t stop)
{
    for (int64_t u = start; u < stop; u++) out[u + 1] = NAME(view_row)(offsets, targets, added, also, key, threshold, u, NULL);
}

/* The rows of the copy, row u from starts[u] on. */
EXPORT void NAME(view_rows)(
    const int64_t *offsets, const INDEX *targets, const int64_t *added, const INDEX *also, uint64_t key, uint64_t threshold,
    const int64_t *starts, INDEX *out, int64_t start, int64_t stop)
{
    for (int64_t u = start; u < stop; u++)
        NAME(view_row)(offsets, targets, added, also, key, threshold, u, out + starts[u]);
}

/* The weights in a channel of the copy: those of `here` where the edge is one of the graph, for an added pair those of a
 * random edge, a hash of the pair, seen by its first row as in `here` and by its second as in `there`. */
EXPORT void NAME(view_weights)(
    const int64_t *offsets, const INDEX *targets, const int64_t *added, const INDEX *also, uint64_t key, uint64_t threshold,
    const float *here, const float *there, int64_t n_entries, const int64_t *starts, float *out, int64_t start, int64_t stop)
{
    for (int64_t u = start; u < stop; u++) {
        int64_t at = starts[u], e = offsets[u], f = added[u], end = offsets[u + 1], end_also = added[u + 1];
        while (e < end || f < end_also) {
            if (f == end_also || (e < end && targets[e] < also[f])) {
                int64_t v = targets[e];
                if (stream(key, MIN(u, v), MAX(u, v)) >= threshold) out[at++] = here[e];
                e++;
            } else {
                int64_t v = also[f++];
                if (e < end && targets[e] == v) out[at++] = here[e++];
                else {
                    uint64_t slot = (mix(stream(key, MIN(u, v), MAX(u, v))) >> 1) % (uint64_t)n_entries;
                    out[at++] = u < v ? here[slot] : there[slot];
                }
            }
        }
    }
}

/* core[u] = the largest c such that u is in a part of the graph where every node has c neighbours.
 * `core` comes in as the degrees; nodes are peeled off by degree, smallest first, in one pass. 0, or -1 without memory. */
EXPORT int64_t NAME(core_numbers)(const int64_t *offsets, const INDEX *targets, int64_t n, int64_t *core)
{
    int64_t highest = 0;
    for (int64_t u = 0; u < n; u++) highest = MAX(highest, core[u]);
    int64_t *bins = calloc((size_t)highest + 2, sizeof(int64_t)), *cursor = malloc(((size_t)highest + 2) * sizeof(int64_t));
    int64_t *order = malloc((size_t)n * sizeof(int64_t)), *place = malloc((size_t)n * sizeof(int64_t));
    int64_t failed = !bins || !cursor || !order || !place;
    if (!failed) {
        for (int64_t u = 0; u < n; u++) bins[core[u] + 1]++;
        for (int64_t d = 0; d <= highest; d++) bins[d + 1] += bins[d];
        memcpy(cursor, bins, ((size_t)highest + 2) * sizeof(int64_t));
        for (int64_t u = 0; u < n; u++) {
            place[u] = cursor[core[u]]++;
            order[place[u]] = u;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t u = order[i];
            for (int64_t e = offsets[u]; e < offsets[u + 1]; e++) {
                int64_t v = targets[e];
                if (core[v] <= core[u]) continue;
                int64_t first = MAX(bins[core[v]], i + 1), w = order[first]; /* v trades places with the first of its degree */
                order[place[v]] = w;
                order[first] = v;
                place[w] = place[v];
                place[v] = first;
                bins[core[v]] = first + 1;
                core[v]--;
            }
        }
    }
    free(bins);
    free(cursor);
    free(order);
    free(place);
    return failed ? -1 : 0;
}
#endif
