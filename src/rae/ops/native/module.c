/* The library is loaded by ctypes and never imported; linkers of some systems still ask for this name. */
#include "common.h"

EXPORT void *PyInit__native(void) { return NULL; }
