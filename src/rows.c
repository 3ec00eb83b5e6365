/*
 * Rows of results, whose columns are set one after another.
 */
#include "test_aio.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

void
row_add(Row *row, Datum value)
{
	row->values[row->n++] = value;
}

/*
 * Adds a column that is null unless its value is known.
 */
void
row_add_if(Row *row, bool known, Datum value)
{
	row->nulls[row->n] = !known;
	row_add(row, value);
}

void
row_add_text(Row *row, const char *text)
{
	row_add_if(row, text !=NULL, text !=NULL ? CStringGetTextDatum(text) : (Datum) 0);
}

void
row_add_nulls(Row *row, int n)
{
	while (n-- > 0)
		row_add_if(row, false, (Datum) 0);
}

void
row_add_file(Row *row, bool known, const RelFileLocator *rlocator)
{
	row_add_if(row, known, ObjectIdGetDatum(rlocator->spcOid));
	row_add_if(row, known, ObjectIdGetDatum(rlocator->dbOid));
	row_add_if(row, known, ObjectIdGetDatum(rlocator->relNumber));
}

void
row_put(FunctionCallInfo fcinfo, Row *row)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	Assert(row->n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

Datum
row_result(FunctionCallInfo fcinfo, Row *row)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(row->n == tupdesc->natts);

	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row->values, row->nulls));
}
