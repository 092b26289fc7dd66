/* The file TEMPLATE, once per type of index, and what the templates share. */

#define INDEX int32_t
#define NAME(name) name##_32
#include "rows.h"
#include TEMPLATE
#undef INDEX
#undef NAME
#define INDEX int64_t
#define NAME(name) name##_64
#include "rows.h"
#include TEMPLATE
