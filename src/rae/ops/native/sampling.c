/* Neighbours drawn at random, pairs tested for an edge, nodes renumbered, random walks. */
#ifndef INDEX
#include "common.h"

#define AHEAD_ROW 8     /* nodes ahead whose first neighbours are prefetched */
#define AHEAD_OFFSET 24 /* nodes ahead whose place in the neighbour lists is prefetched */
#define WALK_TRIES 64   /* candidates of a walk before the weights of all neighbours are added up */
#define CHANCES ((int64_t)1 << 31)

/* Number each new id from `count` on and write every id's number; the count of distinct ids comes back.
 * `table` is an open-addressing hash table of places in `keys`, -1 where free, a power of two > distinct ids. */
#define NUMBER_IDS(NAME, TYPE)                                                                                        \
    EXPORT int64_t NAME(const int64_t *ids, int64_t n, TYPE *table, int64_t size, int64_t *keys, int64_t count,      \
                        int64_t *codes)                                                                              \
    {                                                                                                                \
        uint64_t mask = (uint64_t)size - 1;                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                            \
            int64_t id = ids[i];                                                                                     \
            uint64_t at = mix((uint64_t)id) & mask;                                                                  \
            while (table[at] >= 0 && keys[table[at]] != id) at = (at + 1) & mask;                                    \
            if (table[at] < 0) {                                                                                     \
                table[at] = (TYPE)count;                                                                             \
                keys[count++] = id;                                                                                  \
            }                                                                                                        \
            codes[i] = table[at];                                                                                    \
        }                                                                                                            \
        return count;                                                                                                \
    }
NUMBER_IDS(number_ids_32, int32_t)
NUMBER_IDS(number_ids_64, int64_t)

#define TEMPLATE "sampling.c"
#include "templates.h"

#else /* the template, once per type of index */

/* Whether u and v share an edge. */
INLINE int NAME(has_edge)(const int64_t *offsets, const INDEX *targets, int64_t u, int64_t v)
{
    return NAME(has)(targets + offsets[u], offsets[u + 1] - offsets[u], v);
}

EXPORT void NAME(adjacent)(
    const int64_t *offsets, const INDEX *targets, const int64_t *us, const int64_t *vs, uint8_t *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) out[i] = (uint8_t)NAME(has_edge)(offsets, targets, us[i], vs[i]);
}

/* Fill the row of each node with `fanout` distinct neighbours (all if fewer), by Floyd's method. */
EXPORT void NAME(sample_rows)(
    const int64_t *offsets, const INDEX *targets, const int64_t *nodes, const int64_t *views, int64_t fanout, uint64_t key,
    const int64_t *out_offsets, INDEX *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        if (i + AHEAD_OFFSET < stop) PREFETCH(offsets + nodes[i + AHEAD_OFFSET], 2);
        if (i + AHEAD_ROW < stop) PREFETCH(targets + offsets[nodes[i + AHEAD_ROW]], 2);
        int64_t low = offsets[nodes[i]], degree = offsets[nodes[i] + 1] - low;
        INDEX *row = out + out_offsets[i];
        if (degree <= fanout) {
            memcpy(row, targets + low, (size_t)degree * sizeof(INDEX));
            continue;
        }
        uint64_t state = stream(key, nodes[i], views[i]);
        for (int64_t slot = 0; slot < fanout; slot++) {
            int64_t last = degree - fanout + slot, pick = draw(state, slot, last + 1);
            for (int64_t j = 0; j < slot; j++)
                if (row[j] == pick) {
                    pick = last;
                    break;
                }
            row[slot] = (INDEX)pick;
        }
        for (int64_t slot = 0; slot < fanout; slot++) row[slot] = targets[low + row[slot]];
    }
}

/* One uniformly drawn neighbour per (node, view); a node without any stands for itself. */
EXPORT void NAME(pick_neighbors)(
    const int64_t *offsets, const INDEX *targets, const int64_t *nodes, const int64_t *views, uint64_t key, int64_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t low = offsets[nodes[i]], degree = offsets[nodes[i] + 1] - low;
        out[i] = degree == 0 ? nodes[i] : targets[low + draw(stream(key, nodes[i], views[i]), 0, degree)];
    }
}

/* out[i, j] = a batch position whose node is not nodes[i] nor, with `exclude`, adjacent to it; -1 after `tries` draws. */
EXPORT void NAME(non_neighbors)(
    const int64_t *offsets, const INDEX *targets, const int64_t *nodes, int64_t n, int64_t count, uint64_t key, int64_t exclude,
    int64_t tries, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t state = stream(key, nodes[i], 0);
        for (int64_t j = 0; j < count; j++) {
            out[i * count + j] = -1;
            for (int64_t attempt = 0; attempt < tries; attempt++) {
                int64_t pick = draw(state, j * tries + attempt, n), v = nodes[pick];
                if (v != nodes[i] && !(exclude && NAME(has_edge)(offsets, targets, nodes[i], v))) {
                    out[i * count + j] = pick;
                    break;
                }
            }
        }
    }
}

/* node2vec's weight of a step to v after `last`: 1 / p back, 1 to a neighbour of last, 1 / q away. */
INLINE double NAME(step_weight)(const int64_t *offsets, const INDEX *targets, int64_t last, int64_t v, double p, double q)
{
    if (v == last) return 1.0 / p;
    return NAME(has_edge)(offsets, targets, last, v) ? 1.0 : 1.0 / q;
}

/* A neighbour of u by these weights: a uniform candidate is accepted with its share of the largest weight, so there is
 * no table per edge. Weights that accept almost none (a very large p or q) are added up instead. */
static int64_t NAME(next_node)(
    const int64_t *offsets, const INDEX *targets, int64_t last, int64_t u, double p, double q, uint64_t state, int64_t slot)
{
    int64_t low = offsets[u], degree = offsets[u + 1] - low;
    double most = MAX(MAX(1.0 / p, 1.0), 1.0 / q), total = 0;
    for (int64_t attempt = 0; attempt < WALK_TRIES; attempt++) {
        int64_t v = targets[low + draw(state, slot + 2 * attempt, degree)];
        if ((double)draw(state, slot + 2 * attempt + 1, CHANCES) < NAME(step_weight)(offsets, targets, last, v, p, q) / most * CHANCES)
            return v;
    }
    for (int64_t e = low; e < low + degree; e++) total += NAME(step_weight)(offsets, targets, last, targets[e], p, q);
    double left = ((double)draw(state, slot + 2 * WALK_TRIES, CHANCES) + 0.5) / CHANCES * total;
    for (int64_t e = low; e < low + degree - 1; e++) {
        left -= NAME(step_weight)(offsets, targets, last, targets[e], p, q);
        if (left < 0) return targets[e];
    }
    return targets[low + degree - 1];
}

/* out[i] = the walk from nodes[i] with number views[i], uniform where p = q = 1; every node has a neighbour. */
EXPORT void NAME(walk_rows)(
    const int64_t *offsets, const INDEX *targets, const int64_t *nodes, const int64_t *views, double p, double q, uint64_t key,
    int64_t *out, int64_t length, int64_t start, int64_t stop)
{
    int uniform = p == 1.0 && q == 1.0;
    for (int64_t i = start; i < stop; i++) {
        int64_t u = nodes[i], last = u;
        uint64_t state = stream(key, u, views[i]);
        out[i * length] = u;
        for (int64_t step = 1; step < length; step++) {
            int64_t low = offsets[u], degree = offsets[u + 1] - low, slot = step * (2 * WALK_TRIES + 1);
            int64_t v = uniform || step == 1 || degree == 1 ? targets[low + draw(state, slot, degree)]
                                                            : NAME(next_node)(offsets, targets, last, u, p, q, state, slot);
            last = u;
            u = v;
            out[i * length + step] = u;
        }
    }
}
#endif
