/* Weighted sums along the rows of a grey picture, in integers.

   Both hashes begin with such sums. A weight has 22 bits, as in Pillow's reductions, and is given as three
   signed bytes, so that sixteen pixels are multiplied at once where the processor has an instruction for it. */

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

#define DIGITS 3
#define LANE 16    /* pixels of one instruction */
#define TOGETHER 4 /* rows that share the loading of weights */

typedef struct {
    int outputs;           /* sums of a row */
    int taps;              /* pixels that each is taken over */
    const int32_t *starts; /* the first of them */
    const int8_t *digits;  /* outputs x DIGITS x taps, lowest first */
} Windows;

/* Sum k goes to out[k * height]. Unsigned: what runs over in between comes back, and the whole fits. */
static void sum_row(const int8_t *row, const Windows *windows, size_t height, uint32_t *out) {
    const int taps = windows->taps;
    for (int k = 0; k < windows->outputs; k++) {
        const int8_t *pixels = row + windows->starts[k];
        const int8_t *low = windows->digits + (size_t)k * DIGITS * (size_t)taps;
        const int8_t *middle = low + taps, *high = middle + taps;
        int32_t a = 0, b = 0, c = 0;
        for (int x = 0; x < taps; x++) {
            a += pixels[x] * low[x];
            b += pixels[x] * middle[x];
            c += pixels[x] * high[x];
        }
        out[(size_t)k * height] = (uint32_t)a + ((uint32_t)b << 8) + ((uint32_t)c << 16);
    }
}

#ifdef WITH_DOT
/* The same for TOGETHER rows; `taps` is a multiple of LANE. */
WITH_DOT static void sum_rows(const int8_t *rows, size_t width, const Windows *windows, size_t height,
                              uint32_t *out) {
    const int taps = windows->taps;
    for (int k = 0; k < windows->outputs; k++) {
        const int8_t *pixels = rows + windows->starts[k];
        const int8_t *low = windows->digits + (size_t)k * DIGITS * (size_t)taps;
        int32x4_t sums[TOGETHER][DIGITS] = {{{0}}}, totals[DIGITS];
        for (int x = 0; x < taps; x += LANE) {
            int8x16_t weights[DIGITS];
            for (int digit = 0; digit < DIGITS; digit++) {
                weights[digit] = vld1q_s8(low + (size_t)digit * (size_t)taps + x);
            }
            for (int row = 0; row < TOGETHER; row++) {
                int8x16_t these = vld1q_s8(pixels + (size_t)row * width + x);
                for (int digit = 0; digit < DIGITS; digit++) {
                    sums[row][digit] = vdotq_s32(sums[row][digit], these, weights[digit]);
                }
            }
        }
        for (int digit = 0; digit < DIGITS; digit++) { /* a lane for every row */
            totals[digit] = vpaddq_s32(vpaddq_s32(sums[0][digit], sums[1][digit]),
                                       vpaddq_s32(sums[2][digit], sums[3][digit]));
        }
        totals[0] = vaddq_s32(totals[0], vshlq_n_s32(totals[1], 8));
        totals[0] = vaddq_s32(totals[0], vshlq_n_s32(totals[2], 16));
        vst1q_u32(out + (size_t)k * height, vreinterpretq_u32_s32(totals[0]));
    }
}

static int has_dot(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#endif

/* `room` holds TOGETHER rows. */
static void sum_picture(const uint8_t *grey, size_t width, int height, const Windows *windows, int8_t *room,
                        uint32_t *out) {
    int step = 1;
#ifdef WITH_DOT
    step = windows->taps % LANE == 0 && has_dot() ? TOGETHER : 1;
#endif
    for (int y = 0; y < height; y += step) {
        step = height - y < step ? 1 : step;
        for (size_t x = 0; x < (size_t)step * width; x++) {
            room[x] = (int8_t)(grey[x] ^ 128); /* the byte of v - 128 */
        }
        if (step == 1) {
            sum_row(room, windows, (size_t)height, out);
        }
#ifdef WITH_DOT
        else {
            sum_rows(room, width, windows, (size_t)height, out);
        }
#endif
        grey += (size_t)step * width;
        out += step;
    }
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
    Py_buffer grey, starts, digits;
    int width, height;
    Windows windows;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*iiiiy*y*:row_sums", &grey, &width, &height, &windows.outputs,
                          &windows.taps, &starts, &digits)) {
        return NULL;
    }
    windows.starts = starts.buf;
    windows.digits = digits.buf;
    if (width < 1 || height < 1 || windows.outputs < 1 || windows.taps < 1 || windows.taps > width ||
        grey.len != (Py_ssize_t)width * height || starts.len != (Py_ssize_t)sizeof(int32_t) * windows.outputs ||
        digits.len != (Py_ssize_t)windows.outputs * DIGITS * windows.taps || !are_inside(&windows, width)) {
        PyErr_SetString(PyExc_ValueError, "the windows do not lie in the picture");
    } else {
        int8_t *room = malloc(TOGETHER * (size_t)width);
        if (room == NULL) {
            PyErr_NoMemory();
        } else {
            result = PyBytes_FromStringAndSize(
                NULL, (Py_ssize_t)sizeof(uint32_t) * height * (Py_ssize_t)windows.outputs);
        }
        if (result != NULL) {
            uint32_t *out = (uint32_t *)PyBytes_AsString(result);
            Py_BEGIN_ALLOW_THREADS
            sum_picture(grey.buf, (size_t)width, height, &windows, room, out);
            Py_END_ALLOW_THREADS
        }
        free(room);
    }
    PyBuffer_Release(&grey);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&digits);
    return result;
}

static PyMethodDef methods[] = {
    {"row_sums", row_sums, METH_VARARGS,
     "row_sums(grey, width, height, outputs, taps, starts, digits): 32-bit sums, outputs x height, over\n"
     "pixels less 128."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "heldout.overlap.fingerprints._sums",
    .m_doc = "Weighted sums along the rows of a grey picture.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__sums(void) { return PyModule_Create(&definition); }
