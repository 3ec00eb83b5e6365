/*
 * The numbers of named errnos.
 */
#include "test_aio.h"

PG_FUNCTION_INFO_V1(errno_from_string);

#define NAMED(number) {#number, number}

static const struct
{
	const char *name;
	int			number;
}			errno_names[] =

{
	NAMED(EACCES), NAMED(EAGAIN), NAMED(EBADF), NAMED(ECANCELED), NAMED(EFAULT), NAMED(EINTR),
	NAMED(EINVAL), NAMED(EIO), NAMED(EMFILE), NAMED(ENFILE), NAMED(ENODEV), NAMED(ENOENT),
	NAMED(ENOMEM), NAMED(ENOSPC), NAMED(ENXIO), NAMED(EPERM), NAMED(EROFS), NAMED(ESTALE),
	NAMED(ETIMEDOUT),
};

/*
 * Returns the number that this platform gives to a named errno.  The number
 * is positive.
 */
Datum
errno_from_string(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	StringInfoData known;

	require_superuser(fcinfo);

	for (size_t i = 0; i < lengthof(errno_names); i++)
		if (strcmp(errno_names[i].name, name) == 0)
			PG_RETURN_INT32(errno_names[i].number);

	initStringInfo(&known);
	for (size_t i = 0; i < lengthof(errno_names); i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", errno_names[i].name);

	ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("unrecognized errno name: \"%s\"", name),
			errdetail("Known names are %s.", known.data));
}
