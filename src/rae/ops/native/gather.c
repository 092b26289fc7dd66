/* Sums and means of rows that an index names, and the transpose: the loops that read all over memory.
 *
 * Columns are taken 64 or 192 at a time, in registers that stay registers while the rows pass by; where the width is no
 * multiple of a register, the last one overlaps the one before and writes the same numbers twice. A mean reads rows from
 * anywhere, so each is prefetched twice: FAR rows ahead into the outer cache, NEAR rows ahead into the inner one, which
 * holds few rows.
 *
 * This file includes itself once per type of index, and then once per level of x86-64 processors: from level 3 on there
 * is an instruction that reads half precision, level 4 has registers of 16 numbers. A column is added up in the same
 * order whatever the registers are. What is exported chooses the level.
 */
#ifndef INDEX
#include "common.h"

#define FAR 48 /* rows ahead */
#define NEAR 12
#define OUTER 2 /* locality hints of a prefetch: all caches but the nearest, and all caches */
#define INNER 3
#define TOGETHER 4 /* columns whose means in double precision, and deviations, are taken at a time */
#define BATCH_LISTS 512 /* lists of neighbours whose weights of 0 are left out at a time, and their entries, about */
#define BATCH_ENTRIES 8192
#define LARGE_TOTAL 1e18 /* of weights: beyond it, or below its inverse, products of floats would leave their range */

/* Ask for the cache lines of `bytes` bytes; where the row does not begin with a line, one more. */
INLINE void prefetch(const char *from, int bytes, int outer)
{
    for (int at = 0; at < bytes; at += CACHE_LINE) {
        if (outer) PREFETCH(from + at, OUTER);
        else PREFETCH(from + at, INNER);
    }
    if (outer) PREFETCH(from + bytes - 1, OUTER);
    else PREFETCH(from + bytes - 1, INNER);
}

#ifdef HAS_LEVELS
#define HAS(level) __builtin_cpu_supports("x86-64-v" #level)
#define CALL(name, width, ...)                                                                                         \
    do {                                                                                                               \
        if (HAS(4) && (width) >= 16) NAME(name##_v4)(__VA_ARGS__);                                                     \
        else if (HAS(3)) NAME(name##_v3)(__VA_ARGS__);                                                                 \
        else NAME(name##_v1)(__VA_ARGS__);                                                                             \
    } while (0)
#else
#define CALL(name, width, ...) NAME(name##_v1)(__VA_ARGS__)
#endif
#ifdef HAS_LEVELS
#define GIVEN(status, name, width, ...)                                                                                \
    do {                                                                                                               \
        if (HAS(4) && (width) >= 16) status = NAME(name##_v4)(__VA_ARGS__);                                            \
        else if (HAS(3)) status = NAME(name##_v3)(__VA_ARGS__);                                                        \
        else status = NAME(name##_v1)(__VA_ARGS__);                                                                    \
    } while (0)
#else
#define GIVEN(status, name, width, ...) status = NAME(name##_v1)(__VA_ARGS__)
#endif

#define TEMPLATE "gather.c"
#include "templates.h"

#elif !defined(LOOP) /* once per type of index: the loops of each level, and what is exported */

#define LOOP(name) NAME(name##_v1)
#define TARGET
#define REGISTER lanes
#define LONG LANES
#define LOAD load
#define LOAD_HALF load_half
#define STORE store
#define SPLAT splat
#define PLUS add
#define TIMES multiply
#include "gather.c"
#ifdef HAS_LEVELS
#undef LOOP
#undef TARGET
#undef LOAD_HALF
#define LOOP(name) NAME(name##_v3)
#define TARGET __attribute__((target("arch=x86-64-v3")))
#define LOAD_HALF load_half_v3
#include "gather.c"
#undef LOOP
#undef TARGET
#undef REGISTER
#undef LONG
#undef LOAD
#undef LOAD_HALF
#undef STORE
#undef SPLAT
#undef PLUS
#undef TIMES
#define LOOP(name) NAME(name##_v4)
#define TARGET __attribute__((target("arch=x86-64-v4")))
#define REGISTER lanes_v4
#define LONG 16
#define LOAD load_v4
#define LOAD_HALF load_half_v4
#define STORE store_v4
#define SPLAT splat_v4
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#include "gather.c"
#endif
#undef LOOP
#undef TARGET
#undef REGISTER
#undef LONG
#undef LOAD
#undef LOAD_HALF
#undef STORE
#undef SPLAT
#undef PLUS
#undef TIMES

/* out[i] = sum of weights[e] * x[index[e]], e in offsets[i]..offsets[i + 1]; no weights are weights of 1. */
EXPORT void NAME(sum_rows)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, float *out,
    int64_t start, int64_t stop)
{
    CALL(sums, width, offsets, index, weights, x, width, out, start, stop);
}

/* out[i] = mean of x[ego] and of x[index[e]], e in the list of row i: mean({u} and N(u)).
 * ego[i], or first + i without ego; list lists[i], or i without lists. */
EXPORT void NAME(mean_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const float *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    CALL(means, width, offsets, index, n_index, lists, ego, first, x, width, out, start, stop);
}

/* The same for rows of half precision. */
EXPORT void NAME(mean_half_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const uint16_t *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    CALL(half_means, width, offsets, index, n_index, lists, ego, first, x, width, out, start, stop);
}

/* out[i] = mean of x[index[e]], e in the list of row i, without the row itself: N(u) alone; then the standard deviation
 * of the first `spread` columns. 0 for an empty list. List lists[i], or i without lists. With weights,
 * weights[e] each. Rows of x begin `stride` numbers apart. 0, or -1 without memory. */
EXPORT int64_t NAME(moment_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const float *weights, const int64_t *lists, const float *x,
    int64_t stride, int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    int64_t status;
    GIVEN(status, moments, width, offsets, index, n_index, weights, lists, x, stride, width, spread, out, start, stop);
    return status;
}

/* The same for rows of half precision. */
EXPORT int64_t NAME(moment_half_rows)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const float *weights, const int64_t *lists, const uint16_t *x,
    int64_t stride, int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    int64_t status;
    GIVEN(status, half_moments, width, offsets, index, n_index, weights, lists, x, stride, width, spread, out, start, stop);
    return status;
}

/* out[index[e]] += weights[e] * x[i] over the list of row i, columns left..right only: the transpose of sum_rows. */
EXPORT void NAME(scatter_rows)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, int64_t n_rows,
    float *out, int64_t left, int64_t right)
{
    CALL(scatter, width, offsets, index, weights, x, width, n_rows, out, left, right);
}

#else /* once per type of index and level: the loops */

#define MANY (64 / LONG) /* registers that add up at a time, */
#define MOST (LONG == 16 ? 12 : MANY) /* and of full precision, where there are 32 of 16 numbers */

INLINE REGISTER LOOP(read)(const char *from, int half, int64_t at)
{
    return half ? LOAD_HALF((const uint16_t *)from + at) : LOAD((const float *)from + at);
}

/* `count` registers of columns from `at` on, the last one `last` columns after the first, of
 * out = share * (x[ego] + sum of weight * x[index[e]], e in low..high); the ego only with_ego, the share only of a mean.
 * Weights are multiplied by `factor` first, a power of two that keeps their sum in range. */
INLINE void LOOP(some_columns)(
    int count, int half, int with_ego, int is_mean, const void *x, int64_t stride, int64_t ego, const INDEX *index, int64_t n_index,
    const float *weights, float factor, int64_t low, int64_t high, float share, float *out, int64_t at, int64_t last)
{
    const int size = half ? 2 : 4, bytes = count * LONG * size;
    const int64_t row_bytes = stride * size;
    const char *first = (const char *)x + at * size;
    REGISTER total[MOST];
#define COLUMN(r) ((r) + 1 < count ? LONG * (r) : last)
    for (int r = 0; r < count; r++) total[r] = with_ego ? LOOP(read)(first + ego * row_bytes, half, COLUMN(r)) : SPLAT(0.0f);
    for (int64_t e = low; e < high; e++) {
        const char *row = first + index[e] * row_bytes;
        if (is_mean) {
            prefetch(first + index[MIN(e + FAR, n_index - 1)] * row_bytes, bytes, 1);
            prefetch(first + index[MIN(e + NEAR, n_index - 1)] * row_bytes, bytes, 0);
        }
        REGISTER weight = SPLAT(weights ? weights[e] * factor : 1.0f);
        for (int r = 0; r < count; r++) {
            REGISTER value = LOOP(read)(row, half, COLUMN(r));
            total[r] = PLUS(total[r], weights ? TIMES(weight, value) : value);
        }
    }
    for (int r = 0; r < count; r++) STORE(out + at + COLUMN(r), is_mean ? TIMES(total[r], SPLAT(share)) : total[r]);
#undef COLUMN
}

/* The same for rows shorter than a register. */
INLINE void LOOP(few_columns)(
    int half, int with_ego, int is_mean, const void *x, int64_t stride, int64_t width, int64_t ego, const INDEX *index,
    int64_t n_index, const float *weights, float factor, int64_t low, int64_t high, float share, float *out)
{
    float total[LONG] = {0};
#define VALUE(row, j) (half ? widen_half(((const uint16_t *)x)[(row) * stride + (j)]) : ((const float *)x)[(row) * stride + (j)])
    for (int64_t j = 0; with_ego && j < width; j++) total[j] = VALUE(ego, j);
    for (int64_t e = low; e < high; e++) {
        int64_t row = index[e];
        if (is_mean) PREFETCH((const char *)x + (int64_t)index[MIN(e + FAR, n_index - 1)] * stride * (half ? 2 : 4), INNER);
        for (int64_t j = 0; j < width; j++) total[j] += weights ? weights[e] * factor * VALUE(row, j) : VALUE(row, j);
    }
    for (int64_t j = 0; j < width; j++) out[j] = is_mean ? total[j] * share : total[j];
#undef VALUE
}

INLINE void LOOP(all_columns)(
    int half, int with_ego, int is_mean, const void *x, int64_t stride, int64_t width, int64_t ego, const INDEX *index,
    int64_t n_index, const float *weights, float factor, int64_t low, int64_t high, float share, float *out)
{
    if (width < LONG) { /* a row is shorter than a register */
        if (width == 4) LOOP(few_columns)(half, with_ego, is_mean, x, stride, 4, ego, index, n_index, weights, factor, low, high, share, out);
        else LOOP(few_columns)(half, with_ego, is_mean, x, stride, width, ego, index, n_index, weights, factor, low, high, share, out);
        return;
    }
#define COLUMNS(count, last)                                                                                          \
    LOOP(some_columns)(                                                                                                \
        count, half, with_ego, is_mean, x, stride, ego, index, n_index, weights, factor, low, high, share, out, at, last)
    int64_t at = 0;
    if (is_mean && !half && MOST > MANY)
        for (; width - at >= MOST * LONG; at += MOST * LONG) COLUMNS(MOST, (MOST - 1) * LONG);
    for (; at < width; at += MANY * LONG) {
        int64_t left = width - at, last = left - LONG; /* the last register overlaps the one before where it must */
        if (left >= MANY * LONG) COLUMNS(MANY, (MANY - 1) * LONG);
#if LONG == 8
        else if (left > 7 * LONG) COLUMNS(8, last);
        else if (left > 6 * LONG) COLUMNS(7, last);
        else if (left > 5 * LONG) COLUMNS(6, last);
        else if (left > 4 * LONG) COLUMNS(5, last);
#endif
        else if (left > 3 * LONG) COLUMNS(4, last);
        else if (left > 2 * LONG) COLUMNS(3, last);
        else if (left > LONG) COLUMNS(2, last);
        else COLUMNS(1, last);
    }
#undef COLUMNS
}

TARGET static void LOOP(sums)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, float *out,
    int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++)
        LOOP(all_columns)(0, 0, 0, x, width, width, 0, index, 0, weights, 1, offsets[i], offsets[i + 1], 1, out + i * width);
}

INLINE void LOOP(any_means)(
    int half, const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego,
    int64_t first, const void *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i, low = offsets[list], high = offsets[list + 1];
        float share = 1.0f / (float)(1 + high - low);
        LOOP(all_columns)(half, 1, 1, x, width, width, ego ? ego[i] : first + i, index, n_index, NULL, 1, low, high, share, out + i * width);
    }
}

/* Widths of one round of registers are written out: the compiler then knows the length of a row. */
INLINE void LOOP(means_by_width)(
    int half, const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego,
    int64_t first, const void *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    if (width == MANY * LONG) LOOP(any_means)(half, offsets, index, n_index, lists, ego, first, x, MANY * LONG, out, start, stop);
    else LOOP(any_means)(half, offsets, index, n_index, lists, ego, first, x, width, out, start, stop);
}

TARGET static void LOOP(means)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const float *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    LOOP(means_by_width)(0, offsets, index, n_index, lists, ego, first, x, width, out, start, stop);
}

TARGET static void LOOP(half_means)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const int64_t *ego, int64_t first,
    const uint16_t *x, int64_t width, float *out, int64_t start, int64_t stop)
{
    LOOP(means_by_width)(1, offsets, index, n_index, lists, ego, first, x, width, out, start, stop);
}

/* Mean and standard deviation of `count` columns over a list, in double precision; deviations are taken from the mean, in
 * a second pass, so nothing cancels. Weights add up to `total`; without weights that is the length of the list. */
INLINE void LOOP(column_spread)(
    int count, int half, const void *x, int64_t stride, int64_t column, const INDEX *index, const float *weights, double total,
    int64_t low, int64_t high, float *mean, float *deviation)
{
    const float *floats = (const float *)x + column;
    const uint16_t *halves = (const uint16_t *)x + column;
    double center[TOGETHER] = {0}, squares[TOGETHER] = {0};
    if (!(total > 0)) total = 1;
    for (int64_t e = low; e < high; e++) {
        int64_t row = (int64_t)index[e] * stride;
        for (int j = 0; j < count; j++) {
            double value = half ? widen_half(halves[row + j]) : floats[row + j];
            center[j] += weights ? weights[e] * value : value;
        }
    }
    for (int j = 0; j < count; j++) center[j] /= total;
    for (int64_t e = low; e < high; e++) {
        int64_t row = (int64_t)index[e] * stride;
        for (int j = 0; j < count; j++) {
            double away = (half ? widen_half(halves[row + j]) : floats[row + j]) - center[j];
            squares[j] += weights ? weights[e] * (away * away) : away * away;
        }
    }
    for (int j = 0; j < count; j++) {
        mean[j] = (float)center[j];
        deviation[j] = (float)sqrt(squares[j] / total);
    }
}

/* The moments of one list of neighbours; without weights each counts 1. Means of columns whose deviation is wanted are
 * those that it is taken from. */
INLINE void LOOP(list_moments)(
    int half, const INDEX *index, int64_t n_index, const float *weights, int64_t low, int64_t high, const void *x, int64_t stride,
    int64_t width, int64_t spread, float *row)
{
    float factor = 1;
    double total = (double)(high - low);
    if (weights) {
        total = 0;
        for (int64_t e = low; e < high; e++) total += weights[e];
        if (total > LARGE_TOTAL || (total > 0 && total < 1 / LARGE_TOTAL)) {
            int exponent;
            frexp(total, &exponent);
            factor = (float)ldexp(1, MAX(MIN(-exponent, 126), -126));
        }
    }
    float share = total > 0 ? 1.0f / (float)(total * factor) : 1.0f;
    if (spread < width) /* else every mean is taken with its deviation */
        LOOP(all_columns)(half, 0, 1, x, stride, width, 0, index, n_index, weights, factor, low, high, share, row);
    int64_t j = 0;
    for (; j + TOGETHER <= spread; j += TOGETHER)
        LOOP(column_spread)(TOGETHER, half, x, stride, j, index, weights, total, low, high, row + j, row + width + j);
    for (; j < spread; j++)
        LOOP(column_spread)(1, half, x, stride, j, index, weights, total, low, high, row + j, row + width + j);
}

INLINE void LOOP(plain_moments)(
    int half, const int64_t *offsets, const INDEX *index, int64_t n_index, const int64_t *lists, const void *x, int64_t stride,
    int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i;
        LOOP(list_moments)(
            half, index, n_index, NULL, offsets[list], offsets[list + 1], x, stride, width, spread, out + i * (width + spread));
    }
}

/* The same by weights. Neighbours of weight 0, half of them along one direction, are left out first, some lists at a time,
 * so that what is read and prefetched is what counts. 0, or -1 without memory. */
INLINE int64_t LOOP(weighted_moments)(
    int half, const int64_t *offsets, const INDEX *index, const float *weights, const int64_t *lists, const void *x,
    int64_t stride, int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    int64_t room = BATCH_ENTRIES, ends[BATCH_LISTS + 1];
    for (int64_t i = start; i < stop; i++) {
        int64_t list = lists ? lists[i] : i;
        room = MAX(room, offsets[list + 1] - offsets[list]);
    }
    INDEX *chosen = malloc((size_t)room * sizeof(INDEX));
    float *values = malloc((size_t)room * sizeof(float));
    int64_t failed = !chosen || !values;
    for (int64_t i = start; !failed && i < stop;) {
        int64_t count = 0, size = 0;
        ends[0] = 0;
        for (; i + count < stop && count < BATCH_LISTS; count++) {
            int64_t list = lists ? lists[i + count] : i + count;
            if (count && size + offsets[list + 1] - offsets[list] > room) break;
            for (int64_t e = offsets[list]; e < offsets[list + 1]; e++) {
                chosen[size] = index[e];
                values[size] = weights[e];
                size += weights[e] > 0;
            }
            ends[count + 1] = size;
        }
        for (int64_t j = 0; j < count; j++)
            LOOP(list_moments)(
                half, chosen, size, values, ends[j], ends[j + 1], x, stride, width, spread, out + (i + j) * (width + spread));
        i += count;
    }
    free(chosen);
    free(values);
    return failed ? -1 : 0;
}

TARGET static int64_t LOOP(moments)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const float *weights, const int64_t *lists, const float *x,
    int64_t stride, int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    if (weights) return LOOP(weighted_moments)(0, offsets, index, weights, lists, x, stride, width, spread, out, start, stop);
    LOOP(plain_moments)(0, offsets, index, n_index, lists, x, stride, width, spread, out, start, stop);
    return 0;
}

TARGET static int64_t LOOP(half_moments)(
    const int64_t *offsets, const INDEX *index, int64_t n_index, const float *weights, const int64_t *lists, const uint16_t *x,
    int64_t stride, int64_t width, int64_t spread, float *out, int64_t start, int64_t stop)
{
    if (weights) return LOOP(weighted_moments)(1, offsets, index, weights, lists, x, stride, width, spread, out, start, stop);
    LOOP(plain_moments)(1, offsets, index, n_index, lists, x, stride, width, spread, out, start, stop);
    return 0;
}

TARGET static void LOOP(scatter)(
    const int64_t *offsets, const INDEX *index, const float *weights, const float *x, int64_t width, int64_t n_rows,
    float *out, int64_t left, int64_t right)
{
    int64_t at = left;
    for (; at + MANY * LONG <= right; at += MANY * LONG)
        for (int64_t i = 0; i < n_rows; i++) {
            const float *row = x + i * width + at;
            REGISTER own[MANY];
            for (int r = 0; r < MANY; r++) own[r] = LOAD(row + LONG * r);
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++) {
                float *to = out + (int64_t)index[e] * width + at;
                if (weights) {
                    REGISTER weight = SPLAT(weights[e]);
                    for (int r = 0; r < MANY; r++) STORE(to + LONG * r, PLUS(LOAD(to + LONG * r), TIMES(weight, own[r])));
                } else {
                    for (int r = 0; r < MANY; r++) STORE(to + LONG * r, PLUS(LOAD(to + LONG * r), own[r]));
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
#undef MANY
#undef MOST
#endif
