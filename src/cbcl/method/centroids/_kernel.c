/* The scalar passes of learning and searching, compiled. `_numpy_kernel.py` is the same in numpy: same numbers, slower.
 *
 * b vectors of a block, m centroids, d features.
 *
 * A distance decides, and a distance here is one number and no other: the root of the float64 sum of the squared
 * differences of float32 features, in eight running sums (feature i goes to sum i mod 8) that are added up in order.
 * Computing it for every pair is slow. An inner product from a matrix product is fast and slightly wrong, but wrong by
 * no more than a known bound, in whatever order it was summed:
 *
 *     |fl(x.c) - x.c| <= d u |x| |c|,  u = 2^-24
 *
 * So half of |x - c|^2 - |x|^2, which is |c|^2 / 2 - x.c and orders the centroids of one vector, is known to lie in an
 * interval, widened by what `distance` itself may be off in float64. Intervals that do not overlap decide; only where they
 * overlap is `distance` asked.
 *
 * The file must be compiled without contraction of a*b+c into one rounding (-ffp-contract=off), or `distance` and
 * equation 1 would differ between processors.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "a float must be a float: with more precision at hand, results would differ between machines"
#endif

#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__)
#include <immintrin.h>
#define X86
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

#if defined(__GNUC__)
#define PREFETCH(row, d)                                                                     \
    for (Py_ssize_t line = 0; line < (d) && line < 512; line += 16) __builtin_prefetch((row) + line)
#else
#define PREFETCH(row, d) ((void)0)
#endif

#define LANES 8      /* running sums of a distance; part of its definition */
#define WIDTH 32     /* running sums or minima elsewhere: enough that a compiler vectorises rather than unrolls */
#define COLUMN 16    /* centroids that share a minimum in a search: every WIDTH-th of a span */
#define SPAN (WIDTH * COLUMN) /* centroids in a row that share a bound in a search */
#define SMALL_BLOCK 8 /* vectors of a block when the products are made here */

static const double UNIT = 5.9604644775390625e-08; /* u = 2^-24 */
static const double DISTANCE_DOUBT = 1e-6;         /* of a measured distance on the scale of |c|^2 / 2 - x.c */

/* By how much |c|^2 / 2 - x.c of two centroids must differ, besides their own doubts, for `distance` to see it: what it
 * rounds away grows with |x|^2, and with |c|^2, which those doubts cover. */
static float rounded_away(Py_ssize_t d, double square) {
    return (float)(2.0001 * (double)(d + 32) * 2.220446049250313e-16 * square);
}

/* Outside these squared norms (zero is fine) a float32 product may overflow or lose bits to underflow, and no bound
 * holds: such a vector is always decided by `distance`. */
static int is_safe(double square) { return square == 0.0 || (square >= 1e-20 && square <= 1e30); }

/* x is in float64 already, as a vector is compared with many centroids. */
VECTORISED static double distance(const double *x, const float *c, Py_ssize_t d) {
    double sums[LANES] = {0};
    Py_ssize_t i = 0;
    for (; i + LANES <= d; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double difference = x[i + l] - (double)c[i + l];
            sums[l] += difference * difference;
        }
    for (int l = 0; i + l < d; l++) {
        double difference = x[i + l] - (double)c[i + l];
        sums[l] += difference * difference;
    }
    double total = 0.0;
    for (int l = 0; l < LANES; l++) total += sums[l];
    return sqrt(total);
}

/* Writes x in float64 and returns |x|^2, which is to bound with, never to decide with. */
VECTORISED static double widen(const float *x, Py_ssize_t d, double *wide) {
    double sums[LANES] = {0}, total = 0.0;
    Py_ssize_t i = 0;
    for (; i + LANES <= d; i += LANES)
        for (int l = 0; l < LANES; l++) {
            wide[i + l] = (double)x[i + l];
            sums[l] += wide[i + l] * wide[i + l];
        }
    for (; i < d; i++) {
        wide[i] = (double)x[i];
        total += wide[i] * wide[i];
    }
    for (int l = 0; l < LANES; l++) total += sums[l];
    return total;
}

/* Equation 1: c <- (w c + x) / (w + 1), in float64, kept in float32. Returns |c|^2, to bound with. */
VECTORISED static double move(float *c, const double *x, Py_ssize_t d, double w) {
    double sums[LANES] = {0}, total = 0.0;
    Py_ssize_t i = 0;
    for (; i + LANES <= d; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float mean = (float)((w * (double)c[i + l] + x[i + l]) / (w + 1.0));
            c[i + l] = mean;
            sums[l] += (double)mean * (double)mean;
        }
    for (; i < d; i++) {
        c[i] = (float)((w * (double)c[i] + x[i]) / (w + 1.0));
        total += (double)c[i] * (double)c[i];
    }
    for (int l = 0; l < LANES; l++) total += sums[l];
    return total;
}

/* A tile of inner products, x_0..3 . c_0..3, over the whole groups of LANES or WIDTH features: returns how many features
 * that were. Any order of summation will do, so each processor may have its own. */
#define TILE 4
typedef Py_ssize_t Multiply(const float *const x[TILE], const float *const c[TILE], Py_ssize_t d,
                            float out[TILE][TILE]);

VECTORISED static Py_ssize_t multiply_tile(const float *const x[TILE], const float *const c[TILE], Py_ssize_t d,
                                           float out[TILE][TILE]) {
    for (int k = 0; k < TILE; k++)
        for (int j = 0; j < TILE; j++) {
            float sums[WIDTH] = {0}, total = 0.0f;
            for (Py_ssize_t i = 0; i + WIDTH <= d; i += WIDTH)
                for (int l = 0; l < WIDTH; l++) sums[l] += x[k][i + l] * c[j][i + l];
            for (int l = 0; l < WIDTH; l++) total += sums[l];
            out[k][j] = total;
        }
    return d - d % WIDTH;
}

#if defined(X86)
__attribute__((target("avx2,fma"))) static Py_ssize_t multiply_tile_avx2(const float *const x[TILE],
                                                                         const float *const c[TILE], Py_ssize_t d,
                                                                         float out[TILE][TILE]) {
    for (int j = 0; j < TILE; j += 2) { /* 8 sums at a time: 16 registers */
        __m256 sums[TILE][2];
        for (int k = 0; k < TILE; k++) sums[k][0] = sums[k][1] = _mm256_setzero_ps();
        for (Py_ssize_t i = 0; i + 8 <= d; i += 8) {
            __m256 u = _mm256_loadu_ps(c[j] + i), v = _mm256_loadu_ps(c[j + 1] + i);
#pragma GCC unroll 4
            for (int k = 0; k < TILE; k++) {
                __m256 y = _mm256_loadu_ps(x[k] + i);
                sums[k][0] = _mm256_fmadd_ps(y, u, sums[k][0]);
                sums[k][1] = _mm256_fmadd_ps(y, v, sums[k][1]);
            }
        }
#pragma GCC unroll 4
        for (int k = 0; k < TILE; k++)
            for (int q = 0; q < 2; q++) {
                __m128 four = _mm_add_ps(_mm256_castps256_ps128(sums[k][q]), _mm256_extractf128_ps(sums[k][q], 1));
                __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                out[k][j + q] = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
            }
    }
    return d - d % 8;
}

__attribute__((target("avx512f"))) static Py_ssize_t multiply_tile_avx512(const float *const x[TILE],
                                                                          const float *const c[TILE], Py_ssize_t d,
                                                                          float out[TILE][TILE]) {
    __m512 sums[TILE][TILE];
    for (int k = 0; k < TILE; k++)
        for (int j = 0; j < TILE; j++) sums[k][j] = _mm512_setzero_ps();
    for (Py_ssize_t i = 0; i + 16 <= d; i += 16) {
        __m512 v[TILE];
#pragma GCC unroll 4
        for (int j = 0; j < TILE; j++) v[j] = _mm512_loadu_ps(c[j] + i);
#pragma GCC unroll 4
        for (int k = 0; k < TILE; k++) {
            __m512 y = _mm512_loadu_ps(x[k] + i);
#pragma GCC unroll 4
            for (int j = 0; j < TILE; j++) sums[k][j] = _mm512_fmadd_ps(y, v[j], sums[k][j]);
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < TILE; k++)
#pragma GCC unroll 4
        for (int j = 0; j < TILE; j++) out[k][j] = _mm512_reduce_add_ps(sums[k][j]);
    return d - d % 16;
}
#endif

static Multiply *tile_product = multiply_tile; /* the best one here, chosen when the module is loaded */

/* products[k][j] = x_k . c_j for few vectors and centroids, where starting a BLAS costs more than it saves. */
static void multiply(const float *x, Py_ssize_t b, const float *c, Py_ssize_t m, Py_ssize_t d, float *products,
                     Py_ssize_t stride) {
    for (Py_ssize_t j = 0; j < m; j += TILE)
        for (Py_ssize_t k = 0; k < b; k += TILE) {
            const float *xs[TILE], *cs[TILE]; /* past the edge, the last row again */
            for (Py_ssize_t i = 0; i < TILE; i++) {
                xs[i] = x + (k + i < b ? k + i : b - 1) * d;
                cs[i] = c + (j + i < m ? j + i : m - 1) * d;
            }
            float tile[TILE][TILE];
            Py_ssize_t done = tile_product(xs, cs, d, tile);
            for (Py_ssize_t p = 0; p < TILE && k + p < b; p++)
                for (Py_ssize_t q = 0; q < TILE && j + q < m; q++) {
                    float product = tile[p][q];
                    for (Py_ssize_t i = done; i < d; i++) product += xs[p][i] * cs[q][i];
                    products[(k + p) * stride + j + q] = product;
                }
        }
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

typedef struct {
    float *centroids; /* (capacity, d) */
    int64_t *counts;  /* (capacity,) */
    double *squares;  /* (capacity,) |c|^2 */
    Py_ssize_t m, d;
    double radius;
    /* Bounds of one block, per centroid: |c|^2 / 2 lies in [low, high]; a product with x is off by at most |x| slack. */
    float *low, *high, *slack;
    double *wide; /* (d,) the vector at hand in float64 */
} Learner;

static void bound(Learner *s, Py_ssize_t j, double slack) {
    double half = 0.5 * s->squares[j];
    int safe = is_safe(s->squares[j]) && isfinite(s->high[j]);
    s->low[j] = safe ? (float)(half * (1.0 - 8.0 * UNIT)) : -INFINITY;
    s->high[j] = safe ? (float)(half * (1.0 + 8.0 * UNIT)) : INFINITY;
    s->slack[j] = safe ? (float)(slack * 1.0001) : 0.0f;
}

static double product_slack(Py_ssize_t d, double norm) { return (double)(d + 32) * UNIT * norm; }

static void start_block(Learner *s) {
    for (Py_ssize_t j = 0; j < s->m; j++) {
        s->high[j] = 0.0f;
        bound(s, j, product_slack(s->d, sqrt(s->squares[j])));
    }
}

/* min over j of high + |x| slack - products */
VECTORISED static float least_upper(const Learner *s, const float *products, float norm) {
    float least[WIDTH];
    for (int l = 0; l < WIDTH; l++) least[l] = INFINITY;
    Py_ssize_t j = 0;
    for (; j + WIDTH <= s->m; j += WIDTH)
        for (int l = 0; l < WIDTH; l++) {
            float upper = s->high[j + l] + norm * s->slack[j + l] - products[j + l];
            least[l] = upper < least[l] ? upper : least[l];
        }
    for (int l = 0; j + l < s->m; l++) {
        float upper = s->high[j + l] + norm * s->slack[j + l] - products[j + l];
        least[l] = upper < least[l] ? upper : least[l];
    }
    for (int l = 1; l < WIDTH; l++) least[0] = least[l] < least[0] ? least[l] : least[0];
    return least[0];
}

/* Could centroid j be the nearest? A NaN, where a product overflowed, says yes. */
static int may_be_nearest(const Learner *s, Py_ssize_t j, const float *products, float norm, float least) {
    return !(s->low[j] - norm * s->slack[j] - products[j] > least);
}

VECTORISED static int any_may_be_nearest(const Learner *s, Py_ssize_t j, const float *products, float norm,
                                         float least) {
    int any = 0;
    for (int l = 0; l < WIDTH; l++)
        any |= !(s->low[j + l] - norm * s->slack[j + l] - products[j + l] > least);
    return any;
}

/* The nearest centroid, the first among equals; *exact gets its distance, or -1 while none was needed. */
static Py_ssize_t find_nearest(const Learner *s, const double *x, const float *products, float norm, float least,
                               double *exact) {
    Py_ssize_t best = -1;
    *exact = -1.0;
    for (Py_ssize_t first = 0; first < s->m; first += WIDTH) {
        Py_ssize_t last = first + WIDTH;
        if (last > s->m)
            last = s->m;
        else if (!any_may_be_nearest(s, first, products, norm, least))
            continue;
        for (Py_ssize_t j = first; j < last; j++) {
            if (!may_be_nearest(s, j, products, norm, least)) continue;
            if (best < 0) {
                best = j;
                continue;
            }
            if (*exact < 0.0) *exact = distance(x, s->centroids + best * s->d, s->d);
            double other = distance(x, s->centroids + j * s->d, s->d);
            if (other < *exact) {
                *exact = other;
                best = j;
            }
        }
    }
    return best;
}

static int is_within(const Learner *s, const double *x, double square, float norm, Py_ssize_t j, float product,
                     double exact) {
    if (exact < 0.0 && isfinite(s->high[j]) && is_safe(square)) {
        double half = 0.5 * (s->squares[j] + square) - (double)product;
        double doubt = (double)norm * (double)s->slack[j] + 1e-9 * (s->squares[j] + square);
        double limit = 0.5 * s->radius * s->radius;
        if (half + doubt < limit * (1.0 - 1e-9)) return 1;
        if (half - doubt > limit * (1.0 + 1e-9)) return 0;
    }
    if (exact < 0.0) exact = distance(x, s->centroids + j * s->d, s->d);
    return exact < s->radius;
}

/* Lets each vector of a block join its nearest centroid or become one (Algorithm 1). products[k][j] = x_k . c_j at the
 * start of the block and is kept up to date as centroids move; gram[k][i] = x_k . x_i. False: a vector is not finite. */
static int absorb_block(Learner *s, const float *vectors, Py_ssize_t b, float *products, Py_ssize_t stride,
                         const float *gram) {
    Py_ssize_t d = s->d;
    start_block(s);
    for (Py_ssize_t k = 0; k < b; k++) {
        const float *row = gram + k * b;
        float *own = products + k * stride;
        double *x = s->wide, square = widen(vectors + k * d, d, x), root = sqrt(square);
        if (!isfinite(square)) return 0;
        float norm = (float)(root * 1.0001), least = INFINITY;
        if (is_safe(square)) least = least_upper(s, own, norm) + rounded_away(d, square);
        double exact;
        Py_ssize_t j = s->m ? find_nearest(s, x, own, norm, least, &exact) : -1;
        if (j >= 0 && is_within(s, x, square, norm, j, own[j], exact)) {
            double w = (double)s->counts[j];
            double reach = fmax(sqrt(s->squares[j]), root), before = (double)s->slack[j];
            s->squares[j] = move(s->centroids + j * d, x, d, w);
            s->counts[j] += 1;
            if (!is_safe(square)) s->high[j] = INFINITY; /* its products may have overflown */
            bound(s, j, fmax(before, product_slack(d, root)) + 16.0 * UNIT * reach);
            float share = (float)(1.0 / (w + 1.0));
            for (Py_ssize_t i = k + 1; i < b; i++) {
                float *product = products + i * stride + j;
                *product += (row[i] - *product) * share;
            }
        } else {
            j = s->m++;
            memcpy(s->centroids + j * d, vectors + k * d, (size_t)d * sizeof(float));
            s->counts[j] = 1;
            s->squares[j] = square;
            s->high[j] = 0.0f;
            bound(s, j, product_slack(d, root));
            for (Py_ssize_t i = k + 1; i < b; i++) products[i * stride + j] = row[i];
        }
    }
    return 1;
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

typedef struct {
    const float *centroids;                /* (m of all tiles, d) */
    const float *halves, *doubts, *blurs;  /* (m,) |c|^2 / 2; (spans,) how far halves - products may be off: for each
                                              unit of |x|, and besides */
    Py_ssize_t first, m, d, n, room;       /* first: the number of the tile's first centroid */
    double *wide;                          /* (d,) scratch: the vector at hand in float64 */
    float *least;                          /* (m / COLUMN,) scratch */
} Searcher;

/* What is known about one vector, tile after tile. */
typedef struct {
    const float *vector;
    double *distances; /* (n,) the nearest that were measured, ascending, */
    int64_t *indices;  /* (n,) then by number */
    float *uppers;     /* (n,) values that n centroids are sure not to exceed, ascending; the last is the limit */
    int64_t *waiting;  /* (room,) centroids that may be among the n nearest and were not measured yet, */
    float *lowers;     /* (room,) and the values they are sure not to fall below */
    int64_t *fill;     /* how many are waiting */
    double *length;    /* |x|^2; NaN: not known yet */
} Found;

/* For each whole span, the least |c|^2 / 2 - x.c among the centroids l, l + WIDTH, l + 2 WIDTH, ...: WIDTH minima. */
VECTORISED static void column_minima(const float *halves, const float *products, Py_ssize_t spans, float *least) {
    for (Py_ssize_t s = 0; s < spans; s++, halves += SPAN, products += SPAN, least += WIDTH) {
        float minima[WIDTH];
        for (int l = 0; l < WIDTH; l++) minima[l] = halves[l] - products[l];
        for (int r = WIDTH; r < SPAN; r += WIDTH)
            for (int l = 0; l < WIDTH; l++) {
                float value = halves[r + l] - products[r + l];
                minima[l] = value < minima[l] ? value : minima[l];
            }
        for (int l = 0; l < WIDTH; l++) least[l] = minima[l];
    }
}

VECTORISED static int any_may_reach(const float *least, float doubt, float limit) {
    int any = 0;
    for (int l = 0; l < WIDTH; l++) any |= !(least[l] - doubt > limit);
    return any;
}

static void insert(float *sorted, Py_ssize_t n, float value) {
    Py_ssize_t i = n - 1;
    for (; i > 0 && sorted[i - 1] > value; i--) sorted[i] = sorted[i - 1];
    sorted[i] = value;
}

/* Lowers the limit by a tile. */
static void tighten(const Searcher *s, const float *products, float norm, float rounded, float *uppers) {
    Py_ssize_t n = s->n, j = 0;
    if (s->m / COLUMN >= 4 * n) { /* the least of each column will do: two of the n nearest are rarely in one */
        const float *least = s->least;
        for (; j + SPAN <= s->m; j += SPAN, least += WIDTH) {
            float doubt = norm * s->doubts[j / SPAN] + s->blurs[j / SPAN] + rounded;
            if (!any_may_reach(least, -doubt, uppers[n - 1])) continue;
            for (int l = 0; l < WIDTH; l++)
                if (least[l] + doubt < uppers[n - 1]) insert(uppers, n, least[l] + doubt);
        }
    }
    for (; j < s->m; j++) {
        float upper = s->halves[j] - products[j] + (norm * s->doubts[j / SPAN] + s->blurs[j / SPAN] + rounded);
        if (upper < uppers[n - 1]) insert(uppers, n, upper);
    }
}

/* Lowers the limit to the n-th distance: on the scale of |c|^2 / 2 - x.c, with more than float32 rounds off. */
static void lower_limit(const Searcher *s, Found *f, double square) {
    Py_ssize_t n = s->n;
    if (f->indices[n - 1] < 0) return;
    double half = 0.5 * (f->distances[n - 1] * f->distances[n - 1] - square);
    float upper = (float)(half + DISTANCE_DOUBT * (fabs(half) + square));
    for (Py_ssize_t i = 0; i < n; i++)
        if (f->uppers[i] > upper) f->uppers[i] = upper;
}

/* Measures what is waiting and still within the limit, and keeps the n nearest: by distance, then by number. */
static void measure(const Searcher *s, Found *f) {
    Py_ssize_t n = s->n, d = s->d;
    double square = widen(f->vector, d, s->wide);
    int64_t kept = 0;
    for (int64_t w = 0; w < *f->fill; w++)
        if (!(f->lowers[w] > f->uppers[n - 1])) f->waiting[kept++] = f->waiting[w];
    for (int64_t w = 0; w < kept; w++) {
        int64_t number = f->waiting[w];
        if (w + 1 < kept) PREFETCH(s->centroids + f->waiting[w + 1] * d, d);
        double found = distance(s->wide, s->centroids + number * d, d);
        Py_ssize_t i = n;
        while (i > 0 && (f->distances[i - 1] > found || (f->distances[i - 1] == found && f->indices[i - 1] > number)))
            i--;
        if (i == n) continue;
        memmove(f->distances + i + 1, f->distances + i, (size_t)(n - 1 - i) * sizeof(double));
        memmove(f->indices + i + 1, f->indices + i, (size_t)(n - 1 - i) * sizeof(int64_t));
        f->distances[i] = found;
        f->indices[i] = number;
    }
    *f->fill = 0;
    lower_limit(s, f, square);
}

static void put_by(const Searcher *s, Found *f, Py_ssize_t j, float lower) {
    if (lower > f->uppers[s->n - 1]) return; /* a NaN, where a product overflew, is put by */
    if (*f->fill == s->room) measure(s, f);
    f->waiting[*f->fill] = (int64_t)(s->first + j);
    f->lowers[*f->fill] = lower;
    *f->fill += 1;
}

/* Takes note of a tile of centroids. False: the vector is not finite. */
static int search_row(const Searcher *s, const float *products, Found *f) {
    Py_ssize_t spans = s->m / SPAN;
    if (isnan(*f->length)) *f->length = widen(f->vector, s->d, s->wide);
    if (!isfinite(*f->length)) return 0;
    float norm = (float)(sqrt(*f->length) * 1.0001), *limit = f->uppers + s->n - 1;
    const float *least = s->least;
    column_minima(s->halves, products, spans, s->least);
    if (is_safe(*f->length)) tighten(s, products, norm, rounded_away(s->d, *f->length), f->uppers);
    for (Py_ssize_t first = 0; first + SPAN <= s->m; first += SPAN, least += WIDTH) {
        float doubt = norm * s->doubts[first / SPAN] + s->blurs[first / SPAN];
        if (!any_may_reach(least, doubt, *limit)) continue;
        for (int l = 0; l < WIDTH; l++) {
            if (least[l] - doubt > *limit) continue;
            for (Py_ssize_t j = first + l; j < first + SPAN; j += WIDTH)
                put_by(s, f, j, s->halves[j] - products[j] - doubt);
        }
    }
    for (Py_ssize_t j = spans * SPAN; j < s->m; j++)
        put_by(s, f, j, s->halves[j] - products[j] - (norm * s->doubts[j / SPAN] + s->blurs[j / SPAN]));
    return 1;
}

/* ---- seeds of k-means ---------------------------------------------------------------------------------------------- */

/* The sum of shares times the smaller of two distances, in float64: summed in another order, a sum of m terms that are
 * not negative is off by at most m 2^-53 of itself. */
VECTORISED static double sum_of_smaller(const double *shares, const float *a, const float *b, Py_ssize_t m) {
    double sums[LANES] = {0}, total = 0.0;
    Py_ssize_t i = 0;
    for (; i + LANES <= m; i += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += shares[i + l] * (double)(a[i + l] < b[i + l] ? a[i + l] : b[i + l]);
    for (; i < m; i++) total += shares[i] * (double)(a[i] < b[i] ? a[i] : b[i]);
    for (int l = 0; l < LANES; l++) total += sums[l];
    return total;
}

/* The first point up to which the shares add up to `target`; the last, if none do. */
static Py_ssize_t find_place(const double *cumulated, Py_ssize_t m, double target) {
    Py_ssize_t low = 0, high = m - 1;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (cumulated[middle] < target)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Draws a seed, the best of several points. -1: two are as good, and the order of a sum decides. */
static Py_ssize_t draw_seed(const float *distances, const double *shares, const double *places, Py_ssize_t draws,
                            float *closest, double *cumulated, Py_ssize_t m) {
    double whole = 0.0, least = INFINITY, second = INFINITY;
    Py_ssize_t best = -1;
    for (Py_ssize_t i = 0; i < m; i++) cumulated[i] = whole += shares[i] * (double)closest[i];
    for (Py_ssize_t i = 0; i < draws; i++) {
        Py_ssize_t candidate = find_place(cumulated, m, places[i] * whole);
        if (candidate == best) continue;
        double sum = sum_of_smaller(shares, closest, distances + candidate * m, m);
        if (sum < least) {
            second = least;
            least = sum;
            best = candidate;
        } else if (sum < second)
            second = sum;
    }
    if (!(second - least > 4.0 * (double)(m + 2) * 1.1102230246251565e-16 * second) && second < INFINITY) return -1;
    const float *row = distances + best * m;
    for (Py_ssize_t i = 0; i < m; i++) closest[i] = row[i] < closest[i] ? row[i] : closest[i];
    return best;
}

/* ---- Python ------------------------------------------------------------------------------------------------------ */

/* All buffers are C-contiguous; the callers in this package guarantee the shapes, so only sizes are checked here. */
typedef struct {
    Py_buffer view[13];
    int count;
} Buffers;

static void *take(Buffers *buffers, PyObject *object, int writable, Py_ssize_t bytes) {
    Py_buffer *view = &buffers->view[buffers->count];
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) return NULL;
    buffers->count++;
    if (view->len < bytes) {
        PyErr_Format(PyExc_ValueError, "a buffer of %zd bytes was given where %zd are needed", view->len, bytes);
        return NULL;
    }
    return view->buf;
}

static PyObject *release(Buffers *buffers, PyObject *result) {
    for (int i = 0; i < buffers->count; i++) PyBuffer_Release(&buffers->view[i]);
    return result;
}

#define FLOATS(count) ((Py_ssize_t)sizeof(float) * (count))
#define EIGHTS(count) ((Py_ssize_t)8 * (count))
#define TAKE(variable, object, writable, bytes)                                       \
    if (!((variable) = take(&buffers, object, writable, bytes))) return release(&buffers, NULL)

/* One piece of memory, to be freed by `wide`: that, the three bounds, and whatever more floats the caller wants. */
static int make_scratch(Learner *s, Py_ssize_t capacity, Py_ssize_t floats) {
    s->wide = malloc((size_t)(EIGHTS(s->d) + FLOATS(floats)));
    if (!s->wide) return 0;
    s->low = (float *)(s->wide + s->d);
    s->high = s->low + capacity;
    s->slack = s->high + capacity;
    return 1;
}

static PyObject *py_learn(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o[4];
    Py_ssize_t b, capacity, limit;
    Learner s;
    Buffers buffers = {.count = 0};
    const float *vectors;
    if (!PyArg_ParseTuple(args, "OOOOnnnnnd", &o[0], &o[1], &o[2], &o[3], &b, &s.d, &s.m, &capacity, &limit, &s.radius))
        return NULL;
    TAKE(vectors, o[0], 0, FLOATS(b * s.d));
    TAKE(s.centroids, o[1], 1, FLOATS(capacity * s.d));
    TAKE(s.counts, o[2], 1, EIGHTS(capacity));
    TAKE(s.squares, o[3], 1, EIGHTS(capacity));
    Py_ssize_t width = capacity;
    Py_ssize_t floats = 3 * capacity + SMALL_BLOCK * width + SMALL_BLOCK * SMALL_BLOCK;
    if (!make_scratch(&s, capacity, floats)) return release(&buffers, PyErr_NoMemory());
    float *products = s.slack + capacity, *gram = products + SMALL_BLOCK * width;
    Py_ssize_t done = 0;
    int finite = 1;
    Py_BEGIN_ALLOW_THREADS
    while (finite && done < b && s.m < limit && s.m < capacity) {
        Py_ssize_t size = b - done < SMALL_BLOCK ? b - done : SMALL_BLOCK;
        if (size > capacity - s.m) size = capacity - s.m;
        const float *block = vectors + done * s.d;
        multiply(block, size, s.centroids, s.m, s.d, products, width);
        for (Py_ssize_t k = 0; k < size; k += TILE) { /* what is left of the diagonal is never asked for */
            const float *rest = block + k * s.d;
            multiply(rest, size - k < TILE ? size - k : TILE, rest, size - k, s.d, gram + k * size + k, size);
        }
        finite = absorb_block(&s, block, size, products, width, gram);
        done += size;
    }
    Py_END_ALLOW_THREADS
    free(s.wide);
    return release(&buffers, Py_BuildValue("nn", done, finite ? s.m : -1));
}

static PyObject *py_absorb(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o[6];
    Py_ssize_t b, capacity;
    Learner s;
    Buffers buffers = {.count = 0};
    const float *vectors, *gram;
    float *products;
    if (!PyArg_ParseTuple(args, "OOOOOOnnnnd", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &b, &s.d, &s.m, &capacity,
                          &s.radius))
        return NULL;
    Py_ssize_t stride = s.m + b;
    if (stride > capacity) {
        PyErr_SetString(PyExc_ValueError, "there is no room for as many new centroids as vectors");
        return NULL;
    }
    TAKE(vectors, o[0], 0, FLOATS(b * s.d));
    TAKE(products, o[1], 1, FLOATS(b * stride));
    TAKE(gram, o[2], 0, FLOATS(b * b));
    TAKE(s.centroids, o[3], 1, FLOATS(capacity * s.d));
    TAKE(s.counts, o[4], 1, EIGHTS(capacity));
    TAKE(s.squares, o[5], 1, EIGHTS(capacity));
    if (!make_scratch(&s, capacity, 3 * capacity)) return release(&buffers, PyErr_NoMemory());
    int finite;
    Py_BEGIN_ALLOW_THREADS
    finite = absorb_block(&s, vectors, b, products, stride, gram);
    Py_END_ALLOW_THREADS
    free(s.wide);
    return release(&buffers, PyLong_FromSsize_t(finite ? s.m : -1));
}

static PyObject *py_search(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o[13];
    Py_ssize_t b, all;
    int last;
    Searcher s;
    Found start;
    Buffers buffers = {.count = 0};
    const float *products;
    if (!PyArg_ParseTuple(args, "OOOOOO(OOOOOOO)nnnnnnnp", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7], &o[8],
                          &o[9], &o[10], &o[11], &o[12], &b, &s.d, &all, &s.first, &s.m, &s.n, &s.room, &last))
        return NULL;
    Py_ssize_t spans = (s.m + SPAN - 1) / SPAN;
    TAKE(start.vector, o[0], 0, FLOATS(b * s.d));
    TAKE(products, o[1], 0, FLOATS(b * s.m));
    TAKE(s.centroids, o[2], 0, FLOATS(all * s.d));
    TAKE(s.halves, o[3], 0, FLOATS(s.m));
    TAKE(s.doubts, o[4], 0, FLOATS(spans));
    TAKE(s.blurs, o[5], 0, FLOATS(spans));
    TAKE(start.distances, o[6], 1, EIGHTS(b * s.n));
    TAKE(start.indices, o[7], 1, EIGHTS(b * s.n));
    TAKE(start.uppers, o[8], 1, FLOATS(b * s.n));
    TAKE(start.waiting, o[9], 1, EIGHTS(b * s.room));
    TAKE(start.lowers, o[10], 1, FLOATS(b * s.room));
    TAKE(start.fill, o[11], 1, EIGHTS(b));
    TAKE(start.length, o[12], 1, EIGHTS(b));
    s.wide = malloc((size_t)(EIGHTS(s.d) + FLOATS(s.m / COLUMN)));
    if (!s.wide) return release(&buffers, PyErr_NoMemory());
    s.least = (float *)(s.wide + s.d);
    int finite = 1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t k = 0; k < b && finite; k++) {
        Found f = {start.vector + k * s.d,    start.distances + k * s.n,  start.indices + k * s.n,
                   start.uppers + k * s.n,    start.waiting + k * s.room, start.lowers + k * s.room,
                   start.fill + k,            start.length + k};
        finite = search_row(&s, products + k * s.m, &f);
        if (last) measure(&s, &f);
    }
    Py_END_ALLOW_THREADS
    free(s.wide);
    return release(&buffers, PyBool_FromLong(finite));
}

static PyObject *py_draw(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *o[5];
    Py_ssize_t m, draws, first, last;
    Buffers buffers = {.count = 0};
    const float *distances;
    const double *shares, *places;
    float *closest;
    int64_t *seeds;
    if (!PyArg_ParseTuple(args, "OOOOOnnnn", &o[0], &o[1], &o[2], &o[3], &o[4], &m, &draws, &first, &last)) return NULL;
    TAKE(distances, o[0], 0, FLOATS(m * m));
    TAKE(shares, o[1], 0, EIGHTS(m));
    TAKE(places, o[2], 0, EIGHTS(draws * (last - 1)));
    TAKE(closest, o[3], 1, FLOATS(m));
    TAKE(seeds, o[4], 1, EIGHTS(last));
    double *cumulated = malloc((size_t)EIGHTS(m));
    if (!cumulated) return release(&buffers, PyErr_NoMemory());
    Py_BEGIN_ALLOW_THREADS
    for (; first < last; first++) {
        Py_ssize_t seed = draw_seed(distances, shares, places + (first - 1) * draws, draws, closest, cumulated, m);
        if (seed < 0) break;
        seeds[first] = (int64_t)seed;
    }
    Py_END_ALLOW_THREADS
    free(cumulated);
    return release(&buffers, PyLong_FromSsize_t(first));
}

static PyMethodDef methods[] = {
    {"learn", py_learn, METH_VARARGS, "Agg-Var over few centroids, products included."},
    {"absorb", py_absorb, METH_VARARGS, "Agg-Var over one block whose products are given."},
    {"search", py_search, METH_VARARGS, "Improve the nearest centroids found so far by one tile."},
    {"draw", py_draw, METH_VARARGS, "Draw seeds of k-means, up to one that a rounding decides."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
#if defined(X86)
    if (__builtin_cpu_supports("avx512f"))
        tile_product = multiply_tile_avx512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        tile_product = multiply_tile_avx2;
#endif
    return PyModule_Create(&module);
}
