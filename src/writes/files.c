/*
 * What file a descriptor is: of a relation or of WAL, by its name in /proc.  Called in
 * critical sections, so nothing here raises an error or uses the server's memory.
 */
#include "writes/writes.h"

#ifdef WRITES_CAN_BE_REACHED

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include "access/xlog_internal.h"
#include "catalog/pg_tablespace_d.h"
#include "storage/reinit.h"

/* Cuts the last part off a path, and returns it. */
static const char *
cut_last(char *path)
{
	char	   *slash = strrchr(path, '/');

	if (slash == NULL)
		return "";
	*slash = '\0';
	return slash + 1;
}

/* Returns the tablespace that is at this place, or InvalidOid. */
static Oid
tablespace_at(const char *place)
{
	DIR		   *links = opendir(PG_TBLSPC_DIR);
	struct dirent *link;
	Oid			found = InvalidOid;

	while (links != NULL && found == InvalidOid && (link = readdir(links)) != NULL)
	{
		char		path[MAXPGPATH];
		char		target[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", PG_TBLSPC_DIR, link->d_name);
		if (realpath(path, target) != NULL && strcmp(target, place) == 0)
			found = strtoul(link->d_name, NULL, 10);
	}
	if (links != NULL)
		closedir(links);

	return found;
}

/*
 * Gets the segment of a relation, or of WAL, that is open under a descriptor.  Returns
 * false if it is something else.
 */
bool
file_of_descriptor(int fd, PgAioTargetData *target)
{
	RelFileLocator *rlocator = &target->smgr.rlocator;
	ForkNumber	fork;
	unsigned	segment;
	char		link[64];
	char		path[PATH_MAX];
	ssize_t		length;
	const char *name;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return false;
	path[length] = '\0';
	name = cut_last(path);

	memset(target, 0, sizeof(*target));
	target->smgr.forkNum = InvalidForkNumber;
	if (IsXLogFileName(name))
		return sscanf(name, "%8X%8X%8X", &rlocator->spcOid, &rlocator->dbOid, &rlocator->relNumber) == 3;
	/* a new one, which has no name yet */
	if (strncmp(name, "xlogtemp.", 9) == 0)
		return true;

	/* of a temporary table: behind the number of the process */
	target->smgr.is_temp = name[0] == 't';
	if (target->smgr.is_temp && (name = strchr(name, '_')) == NULL)
		return false;
	name += target->smgr.is_temp;
	if (!parse_filename_for_nontemp_relation(name, &rlocator->relNumber, &fork, &segment))
		return false;
	target->smgr.forkNum = fork;
	target->smgr.blockNum = segment * (BlockNumber) RELSEG_SIZE;

	name = cut_last(path);
	rlocator->dbOid = strtoul(name, NULL, 10);
	if (strcmp(name, "global") == 0)
		rlocator->spcOid = GLOBALTABLESPACE_OID;
	else if (strcmp(name = cut_last(path), "base") == 0)
		rlocator->spcOid = DEFAULTTABLESPACE_OID;
	else if (strcmp(name, TABLESPACE_VERSION_DIRECTORY) == 0)
		rlocator->spcOid = tablespace_at(path);

	return rlocator->spcOid != InvalidOid;
}

#endif							/* WRITES_CAN_BE_REACHED */
