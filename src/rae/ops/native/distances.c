/* Squared distances of pairs of rows. */
#include "common.h"

#define SUMS 16 /* sums side by side, to fill the vector registers; the same on every machine, so that the bytes are */

/* out[p] = |x[rows[p]] - y[others[p]]|² of rows with `width` columns. */
VARIANTS EXPORT void squared_distances(
    const double *x, const double *y, int64_t width, const int64_t *rows, const int64_t *others, double *out, int64_t start,
    int64_t stop)
{
    for (int64_t p = start; p < stop; p++) {
        const double *a = x + rows[p] * width, *b = y + others[p] * width;
        double sums[SUMS] = {0}, total = 0;
        int64_t j = 0;
        for (; j + SUMS <= width; j += SUMS)
            for (int i = 0; i < SUMS; i++) sums[i] += (a[j + i] - b[j + i]) * (a[j + i] - b[j + i]);
        for (; j < width; j++) total += (a[j] - b[j]) * (a[j] - b[j]);
        for (int i = 0; i < SUMS; i++) total += sums[i];
        out[p] = total;
    }
}
