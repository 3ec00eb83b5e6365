/*-------------------------------------------------------------------------
 *
 * histogram.c
 *		An aggregate that counts values by powers of two.
 *
 * src/trace/histogram.c
 *
 *-------------------------------------------------------------------------
 */
#include "test_aio.h"

#include "catalog/pg_type.h"
#include "port/pg_bitutils.h"
#include "utils/array.h"

PG_FUNCTION_INFO_V1(io_histogram_add);
PG_FUNCTION_INFO_V1(io_histogram_get);

typedef struct Histogram
{
	int			nbuckets;
	int64		buckets[63];
} Histogram;

/*
 * io_histogram_add(internal, int8) returns internal
 *
 * Counts a value.  The first bucket is for those below 2, bucket i for those
 * from 2^(i-1) to 2^i - 1.  NULL is not counted.
 */
Datum
io_histogram_add(PG_FUNCTION_ARGS)
{
	Histogram  *histogram;
	MemoryContext context;
	int			bucket;

	require_monitor(fcinfo);
	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "io_histogram_add called in non-aggregate context");

	if (PG_ARGISNULL(0))
		histogram = MemoryContextAllocZero(context, sizeof(Histogram));
	else
		histogram = (Histogram *) PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
	{
		bucket = pg_leftmost_one_pos64(Max(PG_GETARG_INT64(1), 1));
		histogram->buckets[bucket]++;
		histogram->nbuckets = Max(histogram->nbuckets, bucket + 1);
	}

	PG_RETURN_POINTER(histogram);
}

/*
 * io_histogram_get(internal) returns int8[]
 *
 * Returns the buckets up to the last that is not empty.
 */
Datum
io_histogram_get(PG_FUNCTION_ARGS)
{
	Datum		buckets[63];
	Histogram  *histogram;

	require_monitor(fcinfo);
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();

	histogram = (Histogram *) PG_GETARG_POINTER(0);
	for (int i = 0; i < histogram->nbuckets; i++)
		buckets[i] = Int64GetDatum(histogram->buckets[i]);

	PG_RETURN_ARRAYTYPE_P(construct_array_builtin(buckets, histogram->nbuckets, INT8OID));
}
