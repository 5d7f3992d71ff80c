/* The luminance of a JPEG that was saved in colour and holds none, by the decoder that Pillow itself uses.

   Most radiographs are published as such files. Pillow spreads their empty colour planes to full size and mixes
   three channels out of them; here the planes are read as they are stored, and a file is given up at the first
   sample that has a colour. Whatever is not plain is given up, too, for Pillow to judge: errors, warnings,
   several scans, other colour models. So no file becomes readable, or unreadable, by this shortcut.

   The functions are looked up in the library that Pillow has loaded: one decoder for files from strangers, not
   two, and the one that is kept up to date with Pillow. Only libjpeg-turbo's headers are needed to build this. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs it first */
#include <string.h>

/* Of the layouts that libjpeg-turbo can be built with, Pillow's own builds have 62, whatever this system's has. A
   library with another refuses when it is first called, and the shortcut is off. */
#include <jconfig.h>
#define JCONFIG_INCLUDED
#undef JPEG_LIB_VERSION
#define JPEG_LIB_VERSION 62
#include <jpeglib.h>

#ifndef LIBJPEG_TURBO_VERSION
#error "libjpeg-turbo is needed: another library decodes to other greys than Pillow's"
#endif

#define NEUTRAL 128 /* a sample of Cb or Cr that adds no colour */

/* What is called of the library. */
typedef struct {
    struct jpeg_error_mgr *(*std_error)(struct jpeg_error_mgr *);
    void (*create)(j_decompress_ptr, int, size_t);
    void (*mem_src)(j_decompress_ptr, const unsigned char *, unsigned long);
    int (*read_header)(j_decompress_ptr, boolean);
    boolean (*has_multiple_scans)(j_decompress_ptr);
    boolean (*start)(j_decompress_ptr);
    JDIMENSION (*read_raw_data)(j_decompress_ptr, JSAMPIMAGE, JDIMENSION);
    boolean (*finish)(j_decompress_ptr);
    void (*destroy)(j_decompress_ptr);
} Library;

static Library jpeg; /* empty until use_library has found all of it */

typedef struct {
    struct jpeg_error_mgr manager;
    jmp_buf give_up;
} Errors;

static void on_error(j_common_ptr info) { longjmp(((Errors *)info->err)->give_up, 1); }

static void on_message(j_common_ptr info, int level) {
    if (level < 0) { /* a warning: the data are damaged */
        on_error(info);
    }
}

/* 4:4:4, 4:2:2, 4:4:0 and 4:2:0: what the whole decoder refuses is refused where it spreads colours, and that
   part is not asked here. */
static int is_plain(const struct jpeg_decompress_struct *info, int width, int height) {
    return info->image_width == (JDIMENSION)width && info->image_height == (JDIMENSION)height &&
           info->num_components == 3 && info->jpeg_color_space == JCS_YCbCr && info->data_precision == 8 &&
           !info->arith_code && info->comp_info[0].h_samp_factor <= 2 && info->comp_info[0].v_samp_factor <= 2 &&
           info->comp_info[1].h_samp_factor == 1 && info->comp_info[1].v_samp_factor == 1 &&
           info->comp_info[2].h_samp_factor == 1 && info->comp_info[2].v_samp_factor == 1;
}

static int is_neutral(JSAMPARRAY rows, int count, size_t width) {
    for (int row = 0; row < count; row++) {
        unsigned char differs = 0;
        for (size_t x = 0; x < width; x++) {
            differs |= rows[row][x] ^ NEUTRAL;
        }
        if (differs) {
            return 0;
        }
    }
    return 1;
}

/* 1 if all of `out`, width x height, was written. */
static int read_planes(j_decompress_ptr info, int width, int height, unsigned char *out) {
    JSAMPARRAY planes[3];
    if (!is_plain(info, width, height) || jpeg.has_multiple_scans(info)) {
        return 0;
    }
    info->raw_data_out = TRUE;
    jpeg.start(info);
    for (int k = 0; k < 3; k++) {
        jpeg_component_info *component = &info->comp_info[k];
        JDIMENSION across = component->width_in_blocks * DCTSIZE;
        int down = component->v_samp_factor * DCTSIZE;
        planes[k] = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, across, (JDIMENSION)down);
        for (int row = 0; row < down; row++) { /* what lies below the picture is never written */
            memset(planes[k][row], NEUTRAL, across);
        }
    }
    int lines = info->max_v_samp_factor * DCTSIZE;
    for (int top = 0; top < height; top += lines) {
        if (jpeg.read_raw_data(info, planes, (JDIMENSION)lines) != (JDIMENSION)lines) {
            return 0;
        }
        for (int k = 1; k < 3; k++) {
            jpeg_component_info *component = &info->comp_info[k];
            if (!is_neutral(planes[k], component->v_samp_factor * DCTSIZE,
                            (size_t)component->width_in_blocks * DCTSIZE)) {
                return 0;
            }
        }
        for (int row = 0; row < lines && top + row < height; row++) {
            memcpy(out + (size_t)(top + row) * (size_t)width, planes[0][row], (size_t)width);
        }
    }
    jpeg.finish(info);
    return 1;
}

static int read_luminance(const unsigned char *data, size_t size, int width, int height, unsigned char *out) {
    struct jpeg_decompress_struct info;
    Errors errors;
    memset(&info, 0, sizeof info); /* what destroy looks at, should create give up */
    info.err = jpeg.std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.emit_message = on_message;
    if (setjmp(errors.give_up)) {
        jpeg.destroy(&info);
        return 0;
    }
    jpeg.create(&info, JPEG_LIB_VERSION, sizeof info);
    jpeg.mem_src(&info, data, (unsigned long)size);
    jpeg.read_header(&info, TRUE);
    int finished = read_planes(&info, width, height, out);
    jpeg.destroy(&info);
    return finished;
}

static int look_up(void *library, const char *name, void **place) {
    *place = dlsym(library, name);
    return *place != NULL;
}

static PyObject *use_library(PyObject *module, PyObject *arguments) {
    const char *path;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s:use_library", &path)) {
        return NULL;
    }
    /* NOLOAD: only what is in this process already. The handle is kept, and with it the library. */
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    Library found;
    int complete = library != NULL && look_up(library, "jpeg_std_error", (void **)&found.std_error) &&
                   look_up(library, "jpeg_CreateDecompress", (void **)&found.create) &&
                   look_up(library, "jpeg_mem_src", (void **)&found.mem_src) &&
                   look_up(library, "jpeg_read_header", (void **)&found.read_header) &&
                   look_up(library, "jpeg_has_multiple_scans", (void **)&found.has_multiple_scans) &&
                   look_up(library, "jpeg_start_decompress", (void **)&found.start) &&
                   look_up(library, "jpeg_read_raw_data", (void **)&found.read_raw_data) &&
                   look_up(library, "jpeg_finish_decompress", (void **)&found.finish) &&
                   look_up(library, "jpeg_destroy_decompress", (void **)&found.destroy);
    if (complete) {
        jpeg = found;
    }
    return PyBool_FromLong(complete);
}

static PyObject *luminance(PyObject *module, PyObject *arguments) {
    Py_buffer data;
    int width, height, finished;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*ii:luminance", &data, &width, &height)) {
        return NULL;
    }
    if (jpeg.create == NULL) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_RuntimeError, "use_library has not found the decoder");
        return NULL;
    }
    if (width <= 0 || height <= 0 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION) {
        PyBuffer_Release(&data);
        Py_RETURN_NONE;
    }
    PyObject *plane = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)width * height);
    if (plane == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    unsigned char *out = (unsigned char *)PyBytes_AsString(plane);
    Py_BEGIN_ALLOW_THREADS
    finished = read_luminance(data.buf, (size_t)data.len, width, height, out);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (!finished) {
        Py_DECREF(plane);
        Py_RETURN_NONE;
    }
    return plane;
}

static PyMethodDef methods[] = {
    {"use_library", use_library, METH_VARARGS,
     "use_library(path): whether the library at this path, loaded already, or one it needs is a decoder."},
    {"luminance", luminance, METH_VARARGS,
     "luminance(data, width, height): the greys of a JPEG without colour, row by row, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "heldout.image._jpeg",
    .m_doc = "The luminance of a JPEG that was saved in colour and holds none.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__jpeg(void) { return PyModule_Create(&definition); }
