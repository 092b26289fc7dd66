/* A graph that is edited in place: single edges come and go, and triangles, 4-cycles and core numbers follow.
 *
 * Row u has degrees[u] neighbours, ascending. They lie in `targets`, of `base` entries, or, where starts[u] is not below
 * `base`, in `extra` from starts[u] - base on. A row that changes is written anew at the end of `extra`, with its weights
 * in each channel, which lie in `weights` and `extra_weights` as the neighbours do in `targets` and `extra`.
 */
#ifndef INDEX
#include "common.h"

#define KEPT 5        /* numbers of a node that are kept before it changes: degree, triangles, 4-cycles, core, start */
#define AHEAD 16      /* rows of a table that are on their way while one is written */
#define FAR_LONGER 16 /* a list so many times longer than another is searched, not read */

enum { GOES = 0, COMES = 1, CHANGES = 2 }; /* what becomes of an edge; one that changes has other weights */

/* Copy a row: entry `at` is left out where it goes, has a gap before it where it comes, and is there where it changes. */
INLINE void copy_row(void *to, const void *from, int64_t length, int64_t at, int64_t edit, size_t size)
{
    size_t before = (size_t)at * size, gone = edit != COMES ? size : 0, new = edit != GOES ? size : 0;
    memcpy(to, from, before);
    memcpy((char *)to + before + new, (const char *)from + before + gone, (size_t)length * size - before - gone);
}

/* table[rows[i]] = values[i]. Rows that were other bytes go to `changed`, and what they were to `old`; both have room for
 * all. -> how many */
EXPORT int64_t write_rows(
    float *table, int64_t width, const int64_t *rows, int64_t n_rows, const float *values, int64_t *changed, float *old)
{
    size_t bytes = (size_t)width * sizeof(float);
    int64_t count = 0;
    for (int64_t i = 0; i < n_rows; i++) {
        float *row = table + rows[i] * width;
        if (i + AHEAD < n_rows)
            for (size_t at = 0; at < bytes; at += CACHE_LINE) PREFETCH((const char *)(table + rows[i + AHEAD] * width) + at, 3);
        if (!memcmp(row, values + i * width, bytes)) continue;
        memcpy(old + count * width, row, bytes);
        memcpy(row, values + i * width, bytes);
        changed[count++] = rows[i];
    }
    return count;
}

#define TEMPLATE "edits.c"
#include "templates.h"

#else /* the template, once per type of index */

typedef struct {
    const INDEX *targets;
    int64_t base;
    INDEX *extra;
    int64_t *starts, *degrees, *triangles, *cycles, *core;
    uint8_t *touched; /* 1: the node is in `changed` already */
    int64_t *changed, *kept, n_changed;
    const float *const *weights; /* of each channel */
    float *extra_weights;        /* `room` numbers of each channel */
    int64_t channels, room;
} NAME(edited);

INLINE const INDEX *NAME(row)(const NAME(edited) *g, int64_t u)
{
    return g->starts[u] < g->base ? g->targets + g->starts[u] : g->extra + (g->starts[u] - g->base);
}

/* The neighbours of nodes start..stop of a list, one row after the other: row i from offsets[i] on. */
EXPORT void NAME(list_rows)(
    const INDEX *targets, int64_t base, const INDEX *extra, const int64_t *starts, const int64_t *nodes,
    const int64_t *offsets, INDEX *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t from = starts[nodes[i]];
        const INDEX *row = from < base ? targets + from : extra + (from - base);
        memcpy(out + offsets[i], row, (size_t)(offsets[i + 1] - offsets[i]) * sizeof(INDEX));
    }
}

/* The neighbours of some nodes that are not marked yet, each once; they are marked. -> their number */
EXPORT int64_t NAME(spread_rows)(
    const INDEX *targets, int64_t base, const INDEX *extra, const int64_t *starts, const int64_t *degrees,
    const int64_t *nodes, int64_t n_nodes, uint8_t *mark, int64_t *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n_nodes; i++) {
        int64_t from = starts[nodes[i]];
        const INDEX *row = from < base ? targets + from : extra + (from - base);
        for (int64_t j = 0; j < degrees[nodes[i]]; j++)
            if (!mark[row[j]]) {
                mark[row[j]] = 1;
                out[count++] = row[j];
            }
    }
    return count;
}

/* Note that a node changes, and what it was before. */
INLINE void NAME(touch)(NAME(edited) *g, int64_t u)
{
    if (g->touched[u]) return;
    g->touched[u] = 1;
    int64_t *kept = g->kept + KEPT * g->n_changed;
    kept[0] = g->degrees[u];
    kept[1] = g->triangles[u];
    kept[2] = g->cycles[u];
    kept[3] = g->core[u];
    kept[4] = g->starts[u];
    g->changed[g->n_changed++] = u;
}

/* The work of counting cycles from a's side: the lists of its neighbours. */
INLINE double NAME(side)(const NAME(edited) *g, int64_t a, int64_t b)
{
    const INDEX *row = NAME(row)(g, a);
    double work = 0;
    for (int64_t i = 0; i < g->degrees[a]; i++)
        work += (double)MIN(g->degrees[row[i]], FAR_LONGER * (g->degrees[b] + 1));
    return work;
}

/* Add `sign` for each triangle and 4-cycle through the edge a b, whether or not it is there now: a, x, y, b with x next to
 * a, y next to b, and x next to y. `near` marks the neighbours of b meanwhile. */
INLINE void NAME(count_through)(NAME(edited) *g, int64_t a, int64_t b, int64_t sign, uint8_t *near)
{
    if (NAME(side)(g, a, b) > NAME(side)(g, b, a)) {
        int64_t other = a;
        a = b;
        b = other;
    }
    const INDEX *of_a = NAME(row)(g, a), *of_b = NAME(row)(g, b);
    int64_t triangles = 0, cycles = 0;
    for (int64_t i = 0; i < g->degrees[b]; i++) near[of_b[i]] = of_b[i] != a;
    for (int64_t i = 0; i < g->degrees[a]; i++) {
        int64_t x = of_a[i], paths = 0;
        if (x == b) continue;
        const INDEX *of_x = NAME(row)(g, x);
        if (g->degrees[x] > FAR_LONGER * g->degrees[b]) {
            for (int64_t j = 0; j < g->degrees[b]; j++) {
                int64_t y = of_b[j];
                if (y == a || !NAME(has)(of_x, g->degrees[x], y)) continue;
                NAME(touch)(g, y);
                g->cycles[y] += sign;
                paths++;
            }
        } else
            for (int64_t j = 0; j < g->degrees[x]; j++) {
                int64_t y = of_x[j];
                if (!near[y]) continue;
                NAME(touch)(g, y);
                g->cycles[y] += sign;
                paths++;
            }
        if (paths || near[x]) NAME(touch)(g, x);
        g->cycles[x] += sign * paths;
        cycles += paths;
        if (near[x]) {
            g->triangles[x] += sign;
            triangles++;
        }
    }
    for (int64_t i = 0; i < g->degrees[b]; i++) near[of_b[i]] = 0;
    g->triangles[a] += sign * triangles;
    g->triangles[b] += sign * triangles;
    g->cycles[a] += sign * cycles;
    g->cycles[b] += sign * cycles;
}

/* Write the row of u anew, with v, without it, or with other weights: values[c] in channel c. -> where `extra` ends now */
INLINE int64_t NAME(rewrite)(NAME(edited) *g, int64_t u, int64_t v, int64_t edit, const float *values, int64_t used)
{
    const INDEX *row = NAME(row)(g, u);
    int64_t length = g->degrees[u], at = NAME(position)(row, length, v), start = g->starts[u];
    copy_row(g->extra + used, row, length, at, edit, sizeof(INDEX));
    if (edit != GOES) g->extra[used + at] = (INDEX)v;
    for (int64_t c = 0; c < g->channels; c++) {
        float *extra = g->extra_weights + c * g->room;
        copy_row(
            extra + used, start < g->base ? g->weights[c] + start : extra + (start - g->base), length, at, edit, sizeof(float));
        if (edit != GOES) extra[used + at] = values[c];
    }
    g->starts[u] = g->base + used;
    g->degrees[u] = length + (edit == COMES) - (edit == GOES);
    return used + g->degrees[u];
}

/* What finding changed cores needs: all zero between two calls. */
typedef struct {
    int64_t *support, *strong, *stack, *others, *seen, n_seen;
    uint8_t *state;
} NAME(search);

enum { NAME(LISTED) = 1, NAME(VISITED) = 2, NAME(DROPPED) = 4 };

INLINE void NAME(see)(NAME(search) *s, int64_t u)
{
    if (s->state[u] & NAME(LISTED)) return;
    s->state[u] |= NAME(LISTED);
    s->seen[s->n_seen++] = u;
}

INLINE void NAME(forget_all)(NAME(search) *s)
{
    for (int64_t i = 0; i < s->n_seen; i++) {
        int64_t u = s->seen[i];
        s->support[u] = s->strong[u] = 0;
        s->state[u] = 0;
    }
    s->n_seen = 0;
}

/* Neighbours of u whose core is no smaller than u's; counted once in a search. */
INLINE int64_t NAME(strong)(const NAME(edited) *g, NAME(search) *s, int64_t u)
{
    if (!s->strong[u]) {
        NAME(see)(s, u);
        const INDEX *row = NAME(row)(g, u);
        int64_t count = 1;
        for (int64_t i = 0; i < g->degrees[u]; i++) count += g->core[row[i]] >= g->core[u];
        s->strong[u] = count;
    }
    return s->strong[u] - 1;
}

/* Neighbours of u that may stand with it in the next core. */
INLINE int64_t NAME(hopeful)(const NAME(edited) *g, NAME(search) *s, int64_t u, int64_t level)
{
    const INDEX *row = NAME(row)(g, u);
    int64_t count = 0;
    for (int64_t i = 0; i < g->degrees[u]; i++)
        count += g->core[row[i]] > level || (g->core[row[i]] == level && NAME(strong)(g, s, row[i]) > level);
    return count;
}

/* The cores after the edge u v has come: the traversal of Sariyuce and others (2013). Only nodes of the smaller core of
 * both ends, connected to it by such nodes, can rise, by one. */
INLINE void NAME(raise_cores)(NAME(edited) *g, NAME(search) *s, int64_t u, int64_t v)
{
    int64_t root = g->core[u] <= g->core[v] ? u : v, level = g->core[root], top = 0;
    NAME(see)(s, root);
    s->state[root] |= NAME(VISITED);
    s->support[root] = NAME(hopeful)(g, s, root, level);
    s->stack[top++] = root;
    while (top) {
        int64_t w = s->stack[--top];
        const INDEX *row = NAME(row)(g, w);
        if (s->support[w] > level) {
            for (int64_t i = 0; i < g->degrees[w]; i++) {
                int64_t x = row[i];
                if (g->core[x] != level || (s->state[x] & NAME(VISITED)) || NAME(strong)(g, s, x) <= level) continue;
                NAME(see)(s, x);
                s->state[x] |= NAME(VISITED);
                s->support[x] += NAME(hopeful)(g, s, x, level);
                s->stack[top++] = x;
            }
        } else if (!(s->state[w] & NAME(DROPPED))) {
            int64_t below = 0;
            s->state[w] |= NAME(DROPPED);
            s->others[below++] = w;
            while (below) {
                int64_t gone = s->others[--below];
                const INDEX *around = NAME(row)(g, gone);
                for (int64_t i = 0; i < g->degrees[gone]; i++) {
                    int64_t x = around[i];
                    if (g->core[x] != level) continue;
                    NAME(see)(s, x);
                    if (--s->support[x] == level && !(s->state[x] & NAME(DROPPED))) {
                        s->state[x] |= NAME(DROPPED);
                        s->others[below++] = x;
                    }
                }
            }
        }
    }
    for (int64_t i = 0; i < s->n_seen; i++) {
        int64_t w = s->seen[i];
        if ((s->state[w] & NAME(VISITED)) && !(s->state[w] & NAME(DROPPED))) {
            NAME(touch)(g, w);
            g->core[w]++;
        }
    }
    NAME(forget_all)(s);
}

/* The cores after the edge u v has gone: nodes of the smaller core of both ends fall by one where too few are left. */
INLINE void NAME(lower_cores)(NAME(edited) *g, NAME(search) *s, int64_t u, int64_t v)
{
    int64_t level = MIN(g->core[u], g->core[v]), top = 0;
    for (int end = 0; end < 2; end++) {
        int64_t w = end ? v : u;
        if (g->core[w] == level && NAME(strong)(g, s, w) < level && !(s->state[w] & NAME(DROPPED))) {
            s->state[w] |= NAME(DROPPED);
            s->stack[top++] = w;
        }
    }
    while (top) {
        int64_t gone = s->stack[--top];
        const INDEX *row = NAME(row)(g, gone);
        NAME(touch)(g, gone);
        g->core[gone]--;
        for (int64_t i = 0; i < g->degrees[gone]; i++) {
            int64_t x = row[i];
            if (g->core[x] != level) continue;
            if (s->strong[x]) s->strong[x]--;
            if (NAME(strong)(g, s, x) < level && !(s->state[x] & NAME(DROPPED))) {
                s->state[x] |= NAME(DROPPED);
                s->stack[top++] = x;
            }
        }
    }
    NAME(forget_all)(s);
}

/* Do edits first..last while `extra` has room for them: edge us[i] vs[i] goes, comes, or changes its weights, which are
 * values[i] as seen from us[i] and then from vs[i]. Whoever calls has made sure that it is there, or not. `ends` is where
 * `extra` ends and how many nodes are in `changed`; both go on. `scratch` is 5 n numbers and `flags` 2 n, all zero before
 * and after. -> the first edit that was not done */
EXPORT int64_t NAME(edit_edges)(
    const INDEX *targets, int64_t base, INDEX *extra, int64_t room, int64_t *starts, int64_t *degrees, int64_t *triangles,
    int64_t *cycles, int64_t *core, const int64_t *us, const int64_t *vs, const uint8_t *edits, int64_t first, int64_t last,
    uint8_t *touched, int64_t *changed, int64_t *kept, int64_t *ends, int64_t *scratch, uint8_t *flags, int64_t n,
    const float *const *weights, float *extra_weights, const float *values, int64_t channels)
{
    NAME(edited) g = {targets, base, extra, starts, degrees, triangles, cycles, core, touched, changed, kept, ends[1],
                      weights, extra_weights, channels, room};
    NAME(search) s = {scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n, 0, flags};
    int64_t i = first;
    for (; i < last; i++) {
        int64_t u = us[i], v = vs[i], edit = edits[i];
        const float *of_u = channels ? values + 2 * i * channels : NULL;
        if (ends[0] + degrees[u] + degrees[v] + 2 > room) break;
        NAME(touch)(&g, u);
        NAME(touch)(&g, v);
        if (edit != CHANGES) NAME(count_through)(&g, u, v, edit == COMES ? 1 : -1, flags + n);
        ends[0] = NAME(rewrite)(&g, u, v, edit, of_u, ends[0]);
        ends[0] = NAME(rewrite)(&g, v, u, edit, channels ? of_u + channels : NULL, ends[0]);
        if (edit == COMES) NAME(raise_cores)(&g, &s, u, v);
        if (edit == GOES) NAME(lower_cores)(&g, &s, u, v);
    }
    ends[1] = g.n_changed;
    return i;
}
#endif
