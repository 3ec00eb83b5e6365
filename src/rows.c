/*
 * Rows of results, whose columns are set by name.
 *
 * The SQL script alone says which columns there are and in which order.  A column
 * that is not set is null.
 */
#include "test_aio.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/tuplestore.h"

struct Row
{
	TupleDesc	desc;
	Tuplestorestate *store;		/* NULL: the function returns a single row */
	int			next;			/* probably the next column to be set */
	Datum	   *values;
	bool	   *nulls;
};

static void
row_clear(Row *row)
{
	row->next = 0;
	memset(row->nulls, true, row->desc->natts * sizeof(bool));
}

/* Begins the rows of the calling function: of a set, or the only one. */
Row *
row_begin(FunctionCallInfo fcinfo)
{
	Row		   *row = palloc0_object(Row);

	if (fcinfo->flinfo->fn_retset)
	{
		ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

		InitMaterializedSRF(fcinfo, 0);
		row->desc = rsinfo->setDesc;
		row->store = rsinfo->setResult;
	}
	else if (get_call_result_type(fcinfo, NULL, &row->desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	row->values = palloc0_array(Datum, row->desc->natts);
	row->nulls = palloc_array(bool, row->desc->natts);
	row_clear(row);

	return row;
}

void
row_set(Row *row, const char *column, Datum value)
{
	for (int i = 0; i < row->desc->natts; i++)
	{
		int			at = (row->next + i) % row->desc->natts;

		if (strcmp(NameStr(TupleDescAttr(row->desc, at)->attname), column) != 0)
			continue;
		row->values[at] = value;
		row->nulls[at] = false;
		row->next = at + 1;
		return;
	}
	elog(ERROR, "the function's result has no column \"%s\"", column);
}

void
row_set_if(Row *row, const char *column, bool known, Datum value)
{
	if (known)
		row_set(row, column, value);
}

void
row_set_text(Row *row, const char *column, const char *text)
{
	if (text !=NULL)
		row_set(row, column, CStringGetTextDatum(text));
}

void
row_set_ints(Row *row, const char *column, const int *values, int n)
{
	Datum	   *elements = palloc_array(Datum, n);

	for (int i = 0; i < n; i++)
		elements[i] = Int32GetDatum(values[i]);
	row_set(row, column, PointerGetDatum(construct_array_builtin(elements, n, INT4OID)));
	pfree(elements);
}

void
row_set_ms(Row *row, const char *column, bool known, IoTime length)
{
	row_set_if(row, column, known, Float8GetDatum((double) length / NS_PER_MS));
}

void
row_set_file(Row *row, bool known, const RelFileLocator *rlocator)
{
	row_set_if(row, "reltablespace", known, ObjectIdGetDatum(rlocator->spcOid));
	row_set_if(row, "reldatabase", known, ObjectIdGetDatum(rlocator->dbOid));
	row_set_if(row, "relfilenode", known, ObjectIdGetDatum(rlocator->relNumber));
}

/* Adds the row to the set, and begins the next one. */
void
row_put(Row *row)
{
	tuplestore_putvalues(row->store, row->desc, row->values, row->nulls);
	row_clear(row);
}

Datum
row_result(Row *row)
{
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row->desc), row->values, row->nulls));
}
