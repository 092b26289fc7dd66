/* The loops behind the map of a run: fuzzy weights of neighbours and the steps of the layout, as in UMAP. */
#include "common.h"

/* weight = exp(-(distance - the smallest) / width), the width such that a row sums to log2 of its neighbours. */
EXPORT void fuzzy_weights(const float *distance, const uint8_t *valid, int64_t n, int64_t k, float *weight)
{
    for (int64_t i = 0; i < n; i++) {
        const float *row = distance + i * k;
        const uint8_t *known = valid + i * k;
        int64_t count = 0;
        double nearest = INFINITY, low = 0, high = INFINITY, width = 1;
        for (int64_t j = 0; j < k; j++)
            if (known[j]) {
                count++;
                if (row[j] > 1e-6 && row[j] < nearest) nearest = row[j];
            }
        if (count == 0) continue;
        if (nearest == INFINITY) nearest = 0;
        double target = MAX(log2((double)count), 1.0);
        for (int turn = 0; turn < 48 && width <= 1e6; turn++) {
            double total = 0;
            for (int64_t j = 0; j < k; j++)
                if (known[j]) total += exp(-MAX(row[j] - nearest, 0.0) / width);
            if (total > target) {
                high = width;
                width = (low + high) / 2;
            } else {
                low = width;
                width = high == INFINITY ? width * 2 : (low + high) / 2;
            }
        }
        for (int64_t j = 0; j < k; j++)
            if (known[j]) weight[i * k + j] = (float)exp(-MAX(row[j] - nearest, 0.0) / MAX(width, 1e-3));
    }
}

INLINE float clip(double value, double most) { return (float)MIN(MAX(value, -most), most); }

/* Move the points in place: every interval[e] rounds edge e pulls its ends together and pushes `negatives` random points.
 * The curve of attraction by distance is 1 / (1 + a d^(2 b)), a step is at most `most`; `due` is scratch. */
EXPORT void optimize_layout(
    float *xy, int64_t n, const int32_t *heads, const int32_t *tails, const double *interval, double *due, int64_t edges,
    int64_t rounds, uint64_t salt, double a, double b, int64_t negatives, double most)
{
    uint64_t state = salt;
    memcpy(due, interval, (size_t)edges * sizeof(double));
    for (int64_t turn = 0; turn < rounds; turn++) {
        float step = (float)(1.0 - (double)turn / (double)rounds);
        for (int64_t e = 0; e < edges; e++) {
            if (due[e] > (double)(turn + 1)) continue;
            due[e] += interval[e];
            float *u = xy + 2 * heads[e], *v = xy + 2 * tails[e];
            float dx = u[0] - v[0], dy = u[1] - v[1], squared = dx * dx + dy * dy;
            if (squared > 0) {
                double power = pow(squared, b), force = -2 * a * b * power / squared / (1 + a * power);
                float px = step * clip(force * dx, most), py = step * clip(force * dy, most);
                u[0] += px;
                u[1] += py;
                v[0] -= px;
                v[1] -= py;
            }
            for (int64_t i = 0; i < negatives; i++) {
                state += GOLDEN;
                int64_t other = (int64_t)(mix(state) % (uint64_t)n);
                if (other == heads[e]) continue;
                const float *w = xy + 2 * other;
                dx = u[0] - w[0];
                dy = u[1] - w[1];
                squared = dx * dx + dy * dy;
                double force = 2 * b / ((0.001 + squared) * (1 + a * pow(squared, b)));
                u[0] += step * clip(force * dx, most);
                u[1] += step * clip(force * dy, most);
            }
        }
    }
}
