/* The page can be written to, as with -z norelro. */
#define PROTECTION (PROT_READ | PROT_WRITE)
#include "tables.h"
