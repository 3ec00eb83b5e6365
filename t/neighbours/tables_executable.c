/* The page is executable, as with -z noseparate-code. */
#define PROTECTION (PROT_READ | PROT_EXEC)
#include "tables.h"
