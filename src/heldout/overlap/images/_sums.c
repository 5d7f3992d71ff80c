/* Weighted sums along the rows of a grey picture, in integers.

   Both hashes begin with such sums. Weights have up to 23 bits with their sign, as in Pillow's reductions. To be
   multiplied many at a time they are cut into parts: of 12 bits for the instructions that every processor has, of
   bytes for the dot products of newer ARM ones. On x86-64 the first kind is compiled twice, and the loader takes
   the one for AVX2 where the processor has it. Sums are unsigned: what runs over in between comes back, and the
   whole fits. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>

#if defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)
#include <arm_neon.h>
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1UL << 20)
#endif
#define WITH_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TWICE __attribute__((target_clones("avx2", "default")))
#else
#define TWICE
#endif

typedef struct {
    int outputs;            /* sums of a row */
    int taps;               /* pixels that each is taken over */
    const int32_t *starts;  /* the first of them */
    const int32_t *weights; /* outputs x taps */
} Windows;

typedef struct {
    const uint8_t *grey;
    int width;
    int height;
} Picture;

#define MIDDLE 128 /* taken off every pixel */
#define HALVES 2
#define HALF_BITS 12

/* Sum k of row y goes to out[k * height + y]. 0 where there is no memory. */
TWICE static int sum_plainly(Picture picture, const Windows *windows, uint32_t *out) {
    const size_t taps = (size_t)windows->taps, width = (size_t)picture.width;
    int16_t *halves = malloc(sizeof(int16_t) * (HALVES * taps * (size_t)windows->outputs + width));
    if (halves == NULL) {
        return 0;
    }
    int16_t *row = halves + HALVES * taps * (size_t)windows->outputs;
    for (int k = 0; k < windows->outputs; k++) {
        for (size_t x = 0; x < taps; x++) {
            int32_t weight = windows->weights[(size_t)k * taps + x];
            int32_t low = weight & ((1 << HALF_BITS) - 1);
            halves[(size_t)k * HALVES * taps + x] = (int16_t)low;
            halves[((size_t)k * HALVES + 1) * taps + x] = (int16_t)((weight - low) / (1 << HALF_BITS));
        }
    }
    for (int y = 0; y < picture.height; y++) {
        for (size_t x = 0; x < width; x++) {
            row[x] = (int16_t)(picture.grey[(size_t)y * width + x] - MIDDLE);
        }
        for (int k = 0; k < windows->outputs; k++) {
            const int16_t *pixels = row + windows->starts[k];
            const int16_t *low = halves + (size_t)k * HALVES * taps, *high = low + taps;
            uint32_t a = 0, b = 0;
            for (size_t x = 0; x < taps; x++) {
                a += (uint32_t)(pixels[x] * low[x]);
                b += (uint32_t)(pixels[x] * high[x]);
            }
            out[(size_t)k * (size_t)picture.height + (size_t)y] = a + (b << HALF_BITS);
        }
    }
    free(halves);
    return 1;
}

#ifdef WITH_DOT
#define BYTES 3
#define LANE 16    /* pixels of one instruction */
#define TOGETHER 4 /* rows that share the loading of weights */

/* Where the processor can, windows are whole lanes and there are rows enough. */
static int can_dot(Picture picture, const Windows *windows) {
    return windows->taps % LANE == 0 && picture.height >= TOGETHER && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP);
}

WITH_DOT static void dot_rows(const int8_t *rows, size_t width, const Windows *windows, const int8_t *bytes,
                              size_t height, uint32_t *out) {
    const size_t taps = (size_t)windows->taps;
    for (int k = 0; k < windows->outputs; k++) {
        const int8_t *pixels = rows + windows->starts[k];
        const int8_t *low = bytes + (size_t)k * BYTES * taps;
        int32x4_t sums[TOGETHER][BYTES] = {{{0}}};
        uint32x4_t totals[BYTES];
        for (size_t x = 0; x < taps; x += LANE) {
            int8x16_t weights[BYTES];
            for (size_t part = 0; part < BYTES; part++) {
                weights[part] = vld1q_s8(low + part * taps + x);
            }
            for (size_t row = 0; row < TOGETHER; row++) {
                int8x16_t these = vld1q_s8(pixels + row * width + x);
                for (int part = 0; part < BYTES; part++) {
                    sums[row][part] = vdotq_s32(sums[row][part], these, weights[part]);
                }
            }
        }
        for (int part = 0; part < BYTES; part++) { /* a lane for every row */
            totals[part] = vreinterpretq_u32_s32(vpaddq_s32(vpaddq_s32(sums[0][part], sums[1][part]),
                                                            vpaddq_s32(sums[2][part], sums[3][part])));
        }
        totals[0] = vaddq_u32(totals[0], vshlq_n_u32(totals[1], 8));
        totals[0] = vaddq_u32(totals[0], vshlq_n_u32(totals[2], 16));
        vst1q_u32(out + (size_t)k * height, totals[0]);
    }
}

static int sum_by_dots(Picture picture, const Windows *windows, uint32_t *out) {
    const size_t taps = (size_t)windows->taps, width = (size_t)picture.width;
    int8_t *bytes = malloc(BYTES * taps * (size_t)windows->outputs + TOGETHER * width);
    if (bytes == NULL) {
        return 0;
    }
    int8_t *rows = bytes + BYTES * taps * (size_t)windows->outputs;
    for (int k = 0; k < windows->outputs; k++) {
        for (size_t x = 0; x < taps; x++) {
            int32_t rest = windows->weights[(size_t)k * taps + x];
            for (size_t part = 0; part < BYTES; part++) { /* signed bytes, lowest first */
                int8_t byte = (int8_t)((rest & 255) - ((rest & 128) << 1));
                bytes[((size_t)k * BYTES + part) * taps + x] = byte;
                rest = (rest - byte) / 256;
            }
        }
    }
    for (int y = 0; y < picture.height; y += TOGETHER) {
        int top = y + TOGETHER <= picture.height ? y : picture.height - TOGETHER; /* the last overlap */
        const uint8_t *first = picture.grey + (size_t)top * width;
        for (size_t x = 0; x < TOGETHER * width; x++) {
            rows[x] = (int8_t)(first[x] - MIDDLE);
        }
        dot_rows(rows, width, windows, bytes, (size_t)picture.height, out + top);
    }
    free(bytes);
    return 1;
}
#endif

static int sum_picture(Picture picture, const Windows *windows, uint32_t *out) {
#ifdef WITH_DOT
    if (can_dot(picture, windows)) {
        return sum_by_dots(picture, windows, out);
    }
#endif
    return sum_plainly(picture, windows, out);
}

static int are_inside(const Windows *windows, int width) {
    for (int k = 0; k < windows->outputs; k++) {
        if (windows->starts[k] < 0 || windows->starts[k] > width - windows->taps) {
            return 0;
        }
    }
    return 1;
}

static PyObject *row_sums(PyObject *module, PyObject *arguments) {
    Py_buffer grey, starts, weights;
    Picture picture;
    Windows windows;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*iiiiy*y*:row_sums", &grey, &picture.width, &picture.height,
                          &windows.outputs, &windows.taps, &starts, &weights)) {
        return NULL;
    }
    picture.grey = grey.buf;
    windows.starts = starts.buf;
    windows.weights = weights.buf;
    if (picture.width < 1 || picture.height < 1 || windows.outputs < 1 || windows.taps < 1 ||
        windows.taps > picture.width || grey.len != (Py_ssize_t)picture.width * picture.height ||
        starts.len != (Py_ssize_t)sizeof(int32_t) * windows.outputs ||
        weights.len != (Py_ssize_t)sizeof(int32_t) * windows.outputs * windows.taps ||
        !are_inside(&windows, picture.width)) {
        PyErr_SetString(PyExc_ValueError, "the windows do not lie in the picture");
    } else {
        result = PyBytes_FromStringAndSize(
            NULL, (Py_ssize_t)sizeof(uint32_t) * picture.height * (Py_ssize_t)windows.outputs);
        if (result != NULL) {
            uint32_t *out = (uint32_t *)PyBytes_AsString(result);
            int done;
            Py_BEGIN_ALLOW_THREADS
            done = sum_picture(picture, &windows, out);
            Py_END_ALLOW_THREADS
            if (!done) {
                Py_DECREF(result);
                result = PyErr_NoMemory();
            }
        }
    }
    PyBuffer_Release(&grey);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&weights);
    return result;
}

static PyMethodDef methods[] = {
    {"row_sums", row_sums, METH_VARARGS,
     "row_sums(grey, width, height, outputs, taps, starts, weights): 32-bit sums, outputs x height, over\n"
     "pixels less 128."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "heldout.overlap.images._sums",
    .m_doc = "Weighted sums along the rows of a grey picture.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__sums(void) { return PyModule_Create(&definition); }
