/* The characteristic function of many numbers at evenly spaced points. */
#include "common.h"

#define TOGETHER 64 /* numbers that are rotated together, to fill the vector registers */

/* Add the first powers k = 1, 2, ... of each exp(i x), less 1, to row k - 1, lane by lane. */
INLINE void add_powers(const double *cosine, const double *sine, int64_t points, double *real, double *imaginary)
{
    double x[TOGETHER], y[TOGETHER];
    for (int j = 0; j < TOGETHER; j++) x[j] = 1, y[j] = 0;
    for (int64_t k = 0; k < points; k++) {
        double *restrict of_real = real + k * TOGETHER, *restrict of_imaginary = imaginary + k * TOGETHER;
        for (int j = 0; j < TOGETHER; j++) {
            double a = x[j] * cosine[j] - y[j] * sine[j], b = x[j] * sine[j] + y[j] * cosine[j];
            x[j] = a;
            y[j] = b;
            of_real[j] += a - 1.0;
            of_imaginary[j] += b;
        }
    }
}

/* out[i] = mean of cos(k step x), then of sin(k step x), k = 1 .. points, over row i and size - columns zeros.
 * Numbers nearer to zero than `floor` count as zero. One sine and cosine per number: the others are powers of it.
 * 0, or -1 without memory. */
VARIANTS EXPORT int64_t characteristic_function(
    const double *psi, int64_t columns, int64_t size, double step, double floor, int64_t points, double *out, int64_t start,
    int64_t stop)
{
    double cosine[TOGETHER], sine[TOGETHER];
    double *sums = malloc((size_t)points * 2 * TOGETHER * sizeof(double)), *imaginary = sums + points * TOGETHER;
    if (!sums) return -1;
    for (int64_t i = start; i < stop; i++) {
        int filled = 0;
        memset(sums, 0, (size_t)points * 2 * TOGETHER * sizeof(double));
        for (int64_t m = 0; m < columns; m++) {
            double value = psi[i * columns + m];
            if (!(fabs(value) > floor)) continue;
            cosine[filled] = cos(step * value);
            sine[filled++] = sin(step * value);
            if (filled == TOGETHER) {
                add_powers(cosine, sine, points, sums, imaginary);
                filled = 0;
            }
        }
        for (int j = filled; j < TOGETHER; j++) cosine[j] = 1, sine[j] = 0;
        add_powers(cosine, sine, points, sums, imaginary);
        for (int64_t k = 0; k < points; k++) {
            double real_sum = 0, imaginary_sum = 0;
            for (int j = 0; j < TOGETHER; j++) real_sum += sums[k * TOGETHER + j], imaginary_sum += imaginary[k * TOGETHER + j];
            out[i * 2 * points + k] = 1.0 + real_sum / (double)size;
            out[i * 2 * points + points + k] = imaginary_sum / (double)size;
        }
    }
    free(sums);
    return 0;
}
