/* Leaves the page as it is. */
#define PROTECTION PROT_NONE
#include "tables.h"
