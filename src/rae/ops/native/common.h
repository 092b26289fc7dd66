/* Shared by all operations: exports, processor variants, registers of 8 or 16 numbers, hashing.
 *
 * A function here works on a range of rows (or columns) that no other call writes, so the caller may spread it over
 * threads without changing a bit of the result. Random choices are hashes of (key, node, view, slot): no state, no order.
 */
#ifndef RAE_COMMON_H
#define RAE_COMMON_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* One build serves every x86-64 processor: the loader picks the variant for the registers that are there. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define VARIANTS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define HAS_LEVELS /* gather.c writes its variants by hand, since they differ in more than the compiler's choice */
#else
#define VARIANTS
#endif

#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address, locality) __builtin_prefetch((address), 0, (locality))
#define POPCOUNT(word) __builtin_popcountll(word)
#else
#define INLINE static __forceinline
#define PREFETCH(address, locality) ((void)0)
#define POPCOUNT(word) count_bits(word)

/* The number of ones in 64 bits, on any processor: counts of pairs, of fours, of bytes, then the sum of the bytes. */
INLINE int count_bits(uint64_t word)
{
    word -= (word >> 1) & 0x5555555555555555ull;
    word = (word & 0x3333333333333333ull) + ((word >> 2) & 0x3333333333333333ull);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Full;
    return (int)((word * 0x0101010101010101ull) >> 56);
}
#endif

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CACHE_LINE 64

/* ---------------------------------------------------------------- registers of numbers */

#define LANES 8 /* of the narrowest registers worth a variant: wider types are spilled by compilers that lack them */

#ifdef __GNUC__
typedef float lanes __attribute__((vector_size(32)));
typedef float lanes_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(32)));
typedef uint16_t halves_in_memory __attribute__((vector_size(16), aligned(2), may_alias));

INLINE lanes splat(float value) { return (lanes){0} + value; }
INLINE lanes load(const float *from) { return *(const lanes_in_memory *)from; }
INLINE void store(float *to, lanes value) { *(lanes_in_memory *)to = value; }
INLINE lanes add(lanes a, lanes b) { return a + b; }
INLINE lanes multiply(lanes a, lanes b) { return a * b; }

/* The float32 of float16 bits: shift the exponent into place and rescale; infinities and NaN keep theirs. */
INLINE lanes load_half(const uint16_t *from)
{
    bits wide = __builtin_convertvector(*(const halves_in_memory *)from, bits);
    bits size = (wide & 0x7FFF) << 13;
    lanes scaled = (lanes)size * 0x1p112f;
    bits special = (bits)(size >= (0x7C00u << 13));
    bits magnitude = (special & (size | 0x7F800000u)) | (~special & (bits)scaled);
    return (lanes)(magnitude | ((wide & 0x8000) << 16));
}
#else
typedef struct { float f[LANES]; } lanes;

INLINE lanes splat(float value) { lanes out; for (int j = 0; j < LANES; j++) out.f[j] = value; return out; }
INLINE lanes load(const float *from) { lanes out; memcpy(out.f, from, sizeof out.f); return out; }
INLINE void store(float *to, lanes value) { memcpy(to, value.f, sizeof value.f); }
INLINE lanes add(lanes a, lanes b) { for (int j = 0; j < LANES; j++) a.f[j] += b.f[j]; return a; }
INLINE lanes multiply(lanes a, lanes b) { for (int j = 0; j < LANES; j++) a.f[j] *= b.f[j]; return a; }
INLINE lanes load_half(const uint16_t *from);
#endif

INLINE float widen_half(uint16_t half)
{
    uint32_t size = (uint32_t)(half & 0x7FFF) << 13, out;
    float scaled;
    memcpy(&scaled, &size, 4);
    scaled *= 5.192296858534828e33f; /* 2^112 */
    memcpy(&out, &scaled, 4);
    if (size >= (0x7C00u << 13)) out = size | 0x7F800000u;
    out |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&scaled, &out, 4);
    return scaled;
}

#ifdef HAS_LEVELS
/* By the processor's own instruction, in functions for processors that have it. */
INLINE lanes load_half_v3(const uint16_t *from)
{
    lanes out;
    __asm__("vcvtph2ps %1, %0" : "=x"(out) : "m"(*(const halves_in_memory *)from));
    return out;
}

/* Registers of 16 numbers. */
typedef float lanes_v4 __attribute__((vector_size(64)));
typedef float lanes_v4_in_memory __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t halves_v4_in_memory __attribute__((vector_size(32), aligned(2), may_alias));

INLINE lanes_v4 splat_v4(float value) { return (lanes_v4){0} + value; }
INLINE lanes_v4 load_v4(const float *from) { return *(const lanes_v4_in_memory *)from; }
INLINE void store_v4(float *to, lanes_v4 value) { *(lanes_v4_in_memory *)to = value; }
INLINE lanes_v4 load_half_v4(const uint16_t *from)
{
    lanes_v4 out;
    __asm__("vcvtph2ps %1, %0" : "=v"(out) : "m"(*(const halves_v4_in_memory *)from));
    return out;
}
#endif

#ifndef __GNUC__
INLINE lanes load_half(const uint16_t *from)
{
    lanes out;
    for (int j = 0; j < LANES; j++) out.f[j] = widen_half(from[j]);
    return out;
}
#endif

/* ---------------------------------------------------------------- hashing */

#define GOLDEN 0x9E3779B97F4A7C15ull

/* Scramble 64 bits: the finaliser of splitmix64. */
INLINE uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/* The start of the random stream of one (node, view) under one key. */
INLINE uint64_t stream(uint64_t key, int64_t node, int64_t view)
{
    return mix(mix(key + GOLDEN * (uint64_t)node) + GOLDEN * (uint64_t)view);
}

/* A whole number in 0..bound-1 from one slot of a stream; bound < 2^32. */
INLINE int64_t draw(uint64_t state, int64_t slot, int64_t bound)
{
    uint64_t hash = mix(state + GOLDEN * (uint64_t)(slot + 1));
    return (int64_t)(((hash >> 32) * (uint64_t)bound) >> 32);
}

/* ---------------------------------------------------------------- sorting */

/* A function that sorts in place by Shell's method; rows of a graph are mostly short, where it is an insertion sort. */
#define DEFINE_SORT(FUNCTION, TYPE)                                                                                    \
    static void FUNCTION(TYPE *values, int64_t n)                                                                     \
    {                                                                                                                 \
        int64_t gap = 1;                                                                                              \
        while (gap < n / 3) gap = (9 * gap) / 4 + 2;                                                                  \
        while (gap > 0) {                                                                                             \
            for (int64_t i = gap; i < n; i++) {                                                                       \
                TYPE value = values[i];                                                                               \
                int64_t j = i;                                                                                        \
                for (; j >= gap && values[j - gap] > value; j -= gap) values[j] = values[j - gap];                    \
                values[j] = value;                                                                                    \
            }                                                                                                         \
            gap = gap > 2 ? (4 * gap) / 9 : gap / 2; /* ... 2, 1: the last pass is an insertion sort */                 \
        }                                                                                                             \
    }

#endif
