/* Sums and means of rows that an index names, and the transpose: the loops that read all over memory.
 *
 * Columns are taken 64 or 32 at a time, as eight or four registers of 8 numbers that stay registers while the rows pass
 * by; where the width is no multiple of that, the last registers overlap those before and write the same numbers twice.
 * A mean reads rows from anywhere, so each is prefetched twice: FAR rows ahead into the outer cache, NEAR rows ahead
 * into the inner one, which holds few rows.
 */
#ifndef INDEX
#include "common.h"

#define MANY 8 /* registers that add up at a time */
#define FAR 48 /* rows ahead */
#define NEAR 12
#define OUTER 2 /* locality hints of a prefetch: all caches but the nearest, and all caches */
#define INNER 3

#define INDEX int32_t
#define NAME(name) name##_32
#include "gather.c"
#undef INDEX
#undef NAME
#define INDEX int64_t
#define NAME(name) name##_64
#include "gather.c"

#else /* the template, once per type of index */

INLINE lanes NAME(read)(const char *from, int half, int64_t at)
{
    return half ? load_half((const uint16_t *)from + at) : load((const float *)from + at);
}

/* Ask for the cache lines of `bytes` bytes; where the row does not begin with a line, one more. */
INLINE void NAME(prefetch)(const char *from, int bytes, int outer)
{
    for (int at = 0; at < bytes; at += CACHE_LINE) {
        if (outer) PREFETCH(from + at, OUTER);
        else PREFETCH(from + at, INNER);
    }
    if (outer) PREFETCH(from + bytes - 1, OUTER);
    else PREFETCH(from + bytes - 1, INNER);
}

/* `count` registers of columns from `at` on, the last one `last` columns after the first, of
 * out = share * (x[ego] + sum of weight * x[index[e]], e in low..high); the ego only with_ego, the share only of a mean. */
INLINE void NAME(some_columns)(
    int count, int half, int with_ego, int is_mean, const void *x, int64_t width, int64_t ego, const INDEX *index, int64_t n_index,
    const float *weights, int64_t low, int64_t high, float share, float *out, int64_t at, int64_t last)
{
    const int size = half ? 2 : 4, bytes = count * LANES * size;
    const int64_t row_bytes = width * size;
    const char *first = (const char *)x + at * size;
    lanes total[MANY];
#define COLUMN(r) ((r) + 1 < count ? LANES * (r) : last)
    for (int r = 0; r < count; r++) total[r] = with_ego ? NAME(read)(first + ego * row_bytes, half, COLUMN(r)) : splat(0.0f);
    for (int64_t e = low; e < high; e++) {
        const char *row = first + index[e] * row_bytes;
        if (is_mean) {
            NAME(prefetch)(first + index[MIN(e + FAR, n_index - 1)] * row_bytes, bytes, 1);
            NAME(prefetch)(first + index[MIN(e + NEAR, n_index - 1)] * row_bytes, bytes, 0);
        }
        lanes weight = splat(weights ? weights[e] : 1.0f);
        for (int r = 0; r < count; r++) {
            lanes value = NAME(read)(row, half, COLUMN(r));
            total[r] = add(total[r], weights ? multiply(weight, value) : value);
        }
    }
    for (int r = 0; r < count; r++) store(out + at + COLUMN(r), is_mean ? multiply(total[r], splat(share)) : total[r]);
#undef COLUMN
}

INLINE void NAME(all_columns)(
    int half, int with_ego, int is_mean, const void *x, int64_t width, int64_t ego, const INDEX *index, int64_t n_index,
    const float *weights, int64_t low, int64_t high, float share, float *out)
{
    if (width < LANES) { /* a row is shorter than a register */
        for (int64_t j = 0; j < width; j++) {
            float total = 0;
            if (with_ego) total = half ? widen_half(((const uint16_t *)x)[ego * width + j]) : ((const float *)x)[ego * width + j];
            for (int64_t e = low; e < high; e++) {
                int64_t at = (int64_t)index[e] * width + j;
                float value = half ? widen_half(((const uint16_t *)x)[at]) : ((const float *)x)[at];
                total += weights ? weights[e] * value : value;
            }
            out[j] = is_mean ? total * share : total;
        }
        return;
    }
#define COLUMNS(count, last)                                                                                          \
    NAME(some_columns)(count, half, with_ego, is_mean, x, width, ego, index, n_index, weights, low, high, share, out, at, last)
    for (int64_t at = 0; at < width; at += MANY * LANES) {
        int64_t left = width - at, last = left - LANES; /* the last register overlaps the one before where it must */
        if (left >= MANY * LANES) COLUMNS(MANY, (MANY - 1) * LANES);
        else if (left > 7 * LANES) COLUMNS(8, last);
        else if (left > 6 * LANES) COLUMNS(7, last);
        else if (left > 5 * LANES) COLUMNS(6, last);
        else if (left > 4 * LANES) COLUMNS(5, last);
        else if (left > 3 * LANES) COLUMNS(4, last);
        else if (left > 2 * LANES) COLUMNS(3, last);
        else if (left > LANES) COLUMNS(2, last);
        else COLUMNS(1, last);
    }
#undef COLUMNS
}

/* out[i] = sum of weights[e] * x[index[e]], e in offsets[i]..offsets[i + 1]; no weights are weights of 1. */
VARIANTS EXPORT void NAME(sum_rows)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, float *out,
    int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++)
        NAME(all_columns)(0, 0, 0, x, width, 0, index, 0, weights, offsets[i], offsets[i + 1], 1, out + i * width);
}

/* out[i] = mean of x[ego] and of x[index[e]], e in the list of row i: mean({u} and N(u)).
 * ego[i], or first + i without ego; list lists[i], or i without lists. */
VARIANTS EXPORT void NAME(mean_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const float *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i, low = offsets[list], high = offsets[list + 1];
        float share = 1.0f / (float)(1 + high - low);
        NAME(all_columns)(0, 1, 1, x, width, ego ? ego[i] : first + i, index, n_index, NULL, low, high, share, out + i * width);
    }
}

/* The same for rows of half precision. */
VARIANTS EXPORT void NAME(mean_half_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const uint16_t *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i, low = offsets[list], high = offsets[list + 1];
        float share = 1.0f / (float)(1 + high - low);
        NAME(all_columns)(1, 1, 1, x, width, ego ? ego[i] : first + i, index, n_index, NULL, low, high, share, out + i * width);
    }
}

/* Mean and standard deviation of one column over a list, in double precision; deviations are taken from the mean, in a
 * second pass, so nothing cancels. */
INLINE void NAME(column_spread)(
    int half, const void *x, int64_t width, int64_t column, const INDEX *index, int64_t low, int64_t high, float *mean,
    float *deviation)
{
    const float *floats = (const float *)x + column;
    const uint16_t *halves = (const uint16_t *)x + column;
    double count = (double)MAX(high - low, 1), center = 0, squares = 0;
    for (int64_t e = low; e < high; e++)
        center += half ? widen_half(halves[(int64_t)index[e] * width]) : floats[(int64_t)index[e] * width];
    center /= count;
    for (int64_t e = low; e < high; e++) {
        double away = (half ? widen_half(halves[(int64_t)index[e] * width]) : floats[(int64_t)index[e] * width]) - center;
        squares += away * away;
    }
    *mean = (float)center;
    *deviation = (float)sqrt(squares / count);
}

/* out[i] = mean of x[index[e]], e in the list of row i, without the row itself: N(u) alone; then the standard deviation
 * of the first `spread` columns. 0 for an empty list. List lists[i], or i without lists. */
INLINE void NAME(moments)(
    int half, const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const void *x,
    int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i, low = offsets[list], high = offsets[list + 1];
        float share = 1.0f / (float)MAX(high - low, 1), *row = out + i * (width + spread);
        NAME(all_columns)(half, 0, 1, x, width, 0, index, n_index, NULL, low, high, share, row);
        for (int64_t j = 0; j < spread; j++)
            NAME(column_spread)(half, x, width, j, index, low, high, row + j, row + width + j);
    }
}

VARIANTS EXPORT void NAME(moment_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const float *x, int64_t width,
    int64_t spread, float *out, int64_t start, int64_t stop)
{
    NAME(moments)(0, offsets, index, n_index, lists, x, width, spread, out, start, stop);
}

/* The same for rows of half precision. */
VARIANTS EXPORT void NAME(moment_half_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const uint16_t *x, int64_t width,
    int64_t spread, float *out, int64_t start, int64_t stop)
{
    NAME(moments)(1, offsets, index, n_index, lists, x, width, spread, out, start, stop);
}

/* out[index[e]] += weights[e] * x[i] over the list of row i, columns left..right only: the transpose of sum_rows. */
VARIANTS EXPORT void NAME(scatter_rows)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, int64_t n_rows,
    float *out, int64_t left, int64_t right)
{
    int64_t at = left;
    for (; at + MANY * LANES <= right; at += MANY * LANES)
        for (int64_t i = 0; i < n_rows; i++) {
            const float *row = x + i * width + at;
            lanes own[MANY];
            for (int r = 0; r < MANY; r++) own[r] = load(row + LANES * r);
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++) {
                float *to = out + (int64_t)index[e] * width + at;
                if (weights) {
                    lanes weight = splat(weights[e]);
                    for (int r = 0; r < MANY; r++) store(to + LANES * r, add(load(to + LANES * r), multiply(weight, own[r])));
                } else {
                    for (int r = 0; r < MANY; r++) store(to + LANES * r, add(load(to + LANES * r), own[r]));
                }
            }
        }
    if (at == right) return;
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t e = offsets[i]; e < offsets[i + 1]; e++) {
            float *to = out + (int64_t)index[e] * width;
            const float *row = x + i * width;
            float weight = weights ? weights[e] : 1.0f;
            for (int64_t j = at; j < right; j++) to[j] += weight * row[j];
        }
}
#endif
