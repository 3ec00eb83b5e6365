/*
 * Finds the relations that recorded reads were of.
 */
#include "trace/trace.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_tablespace_d.h"
#include "utils/fmgroids.h"
#include "utils/relfilenumbermap.h"

/*
 * Returns the temporary relation, of any session, that has this file.
 */
static Oid
temporary_relation(const RelFileLocator *rlocator, ProcNumber owner)
{
	Relation	pg_class;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;
	Oid			tablespace = rlocator->spcOid == MyDatabaseTableSpace ?
		InvalidOid : rlocator->spcOid;

	ScanKeyInit(&keys[0], Anum_pg_class_reltablespace, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(tablespace));
	ScanKeyInit(&keys[1], Anum_pg_class_relfilenode, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(rlocator->relNumber));

	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, ClassTblspcRelfilenodeIndexId, true,
							  NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relpersistence == RELPERSISTENCE_TEMP &&
			GetTempNamespaceProcNumber(class->relnamespace) == owner)
			found = class->oid;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	return found;
}

/*
 * Returns the relation that has this file, or InvalidOid if there is none, or
 * none any more, or it belongs to another database.
 */
Oid
trace_relation(const RelFileLocator *rlocator, ProcNumber temp_owner)
{
	if (!OidIsValid(MyDatabaseId) ||
		(OidIsValid(rlocator->dbOid) && rlocator->dbOid != MyDatabaseId))
		return InvalidOid;
	if (temp_owner != INVALID_PROC_NUMBER)
		return temporary_relation(rlocator, temp_owner);
	return RelidByRelfilenumber(rlocator->spcOid, rlocator->relNumber);
}

/*
 * Returns the relation that a record is about.
 */
Oid
trace_record_relation(const TraceRecord *record)
{
	return trace_relation(&record->target.smgr.rlocator,
						  record->target.smgr.is_temp ? record->owner : INVALID_PROC_NUMBER);
}

/*
 * Describes what was read in the words of pg_aios.
 */
char *
trace_target_description(const TraceRecord *record)
{
	PgAioHandle ioh = {0};

	ioh.target = PGAIO_TID_SMGR;
	ioh.target_data = record->target;

	return pgaio_io_get_target_description(&ioh);
}
