/* BatchNorm, tanh and dropout of a level in a few passes over memory, forwards and backwards; columns start..stop. */
#include "common.h"

#define STRIPE 256 /* columns worked on at a time, so that scratch space lives on the stack */

/* A 32-bit hash per entry, seeded by a 64-bit one per row: out[j] = 0 with chance threshold / 2^32, else scale. */
INLINE void fill_mask_row(uint64_t key, int64_t row, uint32_t threshold, float scale, int64_t start, int64_t count, float *restrict out)
{
    uint64_t state = mix(key + GOLDEN * (uint64_t)(row + 1));
    uint32_t low = (uint32_t)state, high = (uint32_t)(state >> 32);
    for (int64_t j = 0; j < count; j++) {
        uint32_t h = (uint32_t)(start + j) * 0x9E3779B9u + low;
        h = (h ^ (h >> 16)) * 0x7FEB352Du;
        h = (h ^ (h >> 15) ^ high) * 0x846CA68Bu;
        h ^= h >> 16;
        out[j] = h >= threshold ? scale : 0.0f;
    }
}

/* out[j], columns start .. start + count of row `row`: 0 with chance threshold / 2^32, else scale. */
VARIANTS EXPORT void fill_mask(uint64_t key, int64_t row, uint32_t threshold, float scale, int64_t start, int64_t count, float *out)
{
    fill_mask_row(key, row, threshold, scale, start, count, out);
}

/* tanh to float32 accuracy without branches, so that it runs on whole registers.
 * Lambert's continued fraction p / q is exact enough for tanh(x / 4); the double-angle formula, twice, gives tanh(x).
 * Beyond 9.1 tanh is 1. */
INLINE float fast_tanh(float x)
{
    float a = x < -9.1f ? -9.1f : x; /* NaN stays NaN */
    a = (a > 9.1f ? 9.1f : a) * 0.25f;
    float s = a * a;
    float p = a * (135135.0f + s * (17325.0f + s * (378.0f + s)));
    float q = 135135.0f + s * (62370.0f + s * (3150.0f + s * 28.0f));
    float r = p * (1.0f / q), up = 2.0f * r, down = 1.0f + r * r;
    return 2.0f * up * down / (down * down + up * up);
}

/* Mean, variance and 1 / sqrt(variance + eps) of each column, summed in float64. */
VARIANTS EXPORT void column_moments(
    const float *x, int64_t n, int64_t width, double eps, float *mean, float *variance, float *inverse, int64_t start, int64_t stop)
{
    double total[STRIPE], squares[STRIPE];
    for (int64_t left = start; left < stop; left += STRIPE) {
        int64_t count = MIN(STRIPE, stop - left);
        memset(total, 0, sizeof total);
        memset(squares, 0, sizeof squares);
        for (int64_t i = 0; i < n; i++) {
            const float *row = x + i * width + left;
            for (int64_t j = 0; j < count; j++) total[j] += row[j];
        }
        for (int64_t j = 0; j < count; j++) total[j] /= (double)n;
        for (int64_t i = 0; i < n; i++) {
            const float *row = x + i * width + left;
            for (int64_t j = 0; j < count; j++) squares[j] += (row[j] - total[j]) * (row[j] - total[j]);
        }
        for (int64_t j = 0; j < count; j++) {
            mean[left + j] = (float)total[j];
            variance[left + j] = (float)(squares[j] / (double)n);
            inverse[left + j] = (float)(1.0 / sqrt(squares[j] / (double)n + eps));
        }
    }
}

/* active = tanh(BatchNorm(x)) and out = Dropout(active); threshold 0 drops nothing. */
VARIANTS EXPORT void norm_tanh_dropout(
    const float *x, int64_t n, int64_t width, const float *gain, const float *shift, const float *mean, const float *inverse,
    uint64_t key, uint32_t threshold, float scale, float *active, float *out, int64_t start, int64_t stop)
{
    float slope[STRIPE], level[STRIPE], mask[STRIPE];
    for (int64_t left = start; left < stop; left += STRIPE) {
        int64_t count = MIN(STRIPE, stop - left);
        for (int64_t j = 0; j < count; j++) {
            slope[j] = gain[left + j] * inverse[left + j];
            level[j] = shift[left + j] - mean[left + j] * slope[j];
            mask[j] = scale;
        }
        for (int64_t i = 0; i < n; i++) {
            const float *row = x + i * width + left;
            float *restrict squashed = active + i * width + left, *dropped = out + i * width + left;
            for (int64_t j = 0; j < count; j++) squashed[j] = fast_tanh(row[j] * slope[j] + level[j]);
            if (threshold > 0) fill_mask_row(key, i, threshold, scale, left, count, mask);
            for (int64_t j = 0; j < count; j++) dropped[j] = squashed[j] * mask[j];
        }
    }
}

/* The gradient of norm_tanh_dropout through the batch statistics. */
VARIANTS EXPORT void norm_tanh_dropout_grad(
    const float *grad, const float *x, const float *active, int64_t n, int64_t width, const float *gain, const float *mean,
    const float *inverse, uint64_t key, uint32_t threshold, float scale, float *out, float *gain_grad, float *shift_grad,
    int64_t start, int64_t stop)
{
    double of_gain[STRIPE], of_shift[STRIPE];
    float mask[STRIPE], slope[STRIPE], level[STRIPE], tilt[STRIPE];
    for (int64_t left = start; left < stop; left += STRIPE) {
        int64_t count = MIN(STRIPE, stop - left);
        const float *center = mean + left, *spread = inverse + left;
        for (int64_t j = 0; j < count; j++) of_gain[j] = of_shift[j] = 0, mask[j] = scale;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = i * width + left;
            const float *row = x + at, *above = grad + at, *squashed = active + at;
            float *restrict below = out + at;
            if (threshold > 0) fill_mask_row(key, i, threshold, scale, left, count, mask);
            for (int64_t j = 0; j < count; j++) below[j] = above[j] * mask[j] * (1.0f - squashed[j] * squashed[j]);
            for (int64_t j = 0; j < count; j++) {
                of_shift[j] += below[j];
                of_gain[j] += below[j] * ((row[j] - center[j]) * spread[j]);
            }
        }
        for (int64_t j = 0; j < count; j++) {
            gain_grad[left + j] = (float)of_gain[j];
            shift_grad[left + j] = (float)of_shift[j];
            slope[j] = gain[left + j] * spread[j];
            level[j] = (float)(of_shift[j] / (double)n);
            tilt[j] = (float)(of_gain[j] / (double)n * spread[j]);
        }
        for (int64_t i = 0; i < n; i++) {
            const float *row = x + i * width + left;
            float *restrict below = out + i * width + left;
            for (int64_t j = 0; j < count; j++) below[j] = slope[j] * (below[j] - level[j] - (row[j] - center[j]) * tilt[j]);
        }
    }
}
