/*
 * io_device(): filters that have a queue, as a storage device has.
 */
#include "gate/gate.h"

#include <math.h>

PG_FUNCTION_INFO_V1(io_device);
FILTERS_END_FUNCTION(io_device_end, FILTER_DEVICE)

#define MAX_LATENCY_MS 60000
#define MAX_SPREAD 1000

/*
 * Reads a time with its unit, as in a setting.  Without a unit nobody could tell
 * seconds from milliseconds, except of zero.
 */
static IoTime
latency_arg(FunctionCallInfo fcinfo, int arg)
{
	const char *hint = NULL;
	const char *value;
	double		latency;

	check_not_null("latency", PG_ARGISNULL(arg));
	value = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	if ((strpbrk(value, "ms") == NULL && strcmp(value, "0") != 0) || !parse_real(value, &latency, GUC_UNIT_MS, &hint))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("latency \"%s\" is not a time with a unit", value),
				errhint("For example \"100us\", \"1.5 ms\" or \"2s\"."));
	if (!(latency >= 0 && latency <= MAX_LATENCY_MS))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("latency must be between 0 and %d seconds", MAX_LATENCY_MS / 1000));

	return latency * NS_PER_MS;
}

/*
 * Simulates a device: matching reads take at least this long, and at most
 * "queue_depth" of them are served at once.  With jitter, the latency is spread
 * evenly between (1 - jitter) and (1 + jitter) times what it is, with "spread" geometrically
 * between 1/spread and spread times.  The share "tail" of the reads takes "tail_latency"
 * instead.  Takes the place of the device for the same reads, whose reads are due at once.
 */
Datum
io_device(PG_FUNCTION_ARGS)
{
	Filter		filter = filter_of_kind(fcinfo, FILTER_DEVICE);
	DeviceSpeed *speed = &filter.speed;

	speed->latency = latency_arg(fcinfo, 1);
	check_not_null("queue_depth and jitter", PG_ARGISNULL(2) || PG_ARGISNULL(3));
	check_range("queue_depth", PG_GETARG_INT32(2), 1, MAX_QUEUE_DEPTH);
	speed->depth = PG_GETARG_INT32(2);
	speed->jitter = PG_GETARG_FLOAT8(3);
	speed->tail = PG_ARGISNULL(15) ? 0 : PG_GETARG_FLOAT8(15);
	if (!(speed->jitter >= 0 && speed->jitter <= 1 && speed->tail >= 0 && speed->tail <= 1))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("jitter and tail must be between 0 and 1"));
	if (speed->tail > 0)
		speed->tail_latency = latency_arg(fcinfo, 16);
	if (!PG_ARGISNULL(4))
	{
		check_range("bytes_per_second", PG_GETARG_INT64(4), 1, PG_INT64_MAX);
		speed->bytes_per_second = PG_GETARG_INT64(4);
	}
	speed->iops = filter_count_arg(fcinfo, 17, "iops", 1, 0);
	speed->spread = PG_ARGISNULL(18) ? 1 : PG_GETARG_FLOAT8(18);
	if (!(speed->spread >= 1 && speed->spread <= MAX_SPREAD))
		ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("spread must be between 1 and %d", MAX_SPREAD));
	filter_match_args(fcinfo, 5, 6, &filter);
	gate_require_worker();

	PG_RETURN_INT32(filters_put(&filter));
}

/* Returns what this share of the latencies does not exceed, or the end of its class. */
static IoTime
percentile(const GateQueue *queue, double share)
{
	double		rest = share * (queue->reads + queue->writes);
	int			i = 0;

	while (i < LATENCY_CLASSES - 1 && (rest -= queue->latencies[i]) > 0)
		i++;
	return Min(1000 * exp2(i / 8.0), queue->latency_max);
}

/* FilterHandler.show_device: sets the columns about a device and its queue. */
void
gate_show_device(const Filter *device, Row *row)
{
	static GateQueue queue;
	int64		in_progress;

	LWLockAcquire(gate->lock, LW_SHARED);
	queue = gate->queues[device->queue];
	LWLockRelease(gate->lock);
	/* nothing has been read yet */
	if (queue.filter != device->id)
		memset(&queue, 0, sizeof(queue));

	in_progress = Min(queue.in_flight, device->speed.depth);

	row_set_ms(row, "latency", true, device->speed.latency);
	row_set(row, "queue_depth", Int32GetDatum(device->speed.depth));
	row_set(row, "jitter", Float8GetDatum(device->speed.jitter));
	row_set(row, "tail", Float8GetDatum(device->speed.tail));
	row_set_ms(row, "tail_latency", device->speed.tail > 0, device->speed.tail_latency);
	row_set_if(row, "iops", device->speed.iops != 0, Int32GetDatum(device->speed.iops));
	row_set(row, "spread", Float8GetDatum(device->speed.spread));
	row_set_ms(row, "p50_latency", queue.latency_max > 0, percentile(&queue, 0.5));
	row_set_ms(row, "p99_latency", queue.latency_max > 0, percentile(&queue, 0.99));
	row_set_ms(row, "max_latency", queue.latency_max > 0, queue.latency_max);
	row_set_if(row, "bytes_per_second", device->speed.bytes_per_second != 0, Int64GetDatum(device->speed.bytes_per_second));
	row_set(row, "reads", Int64GetDatum(queue.reads));
	row_set(row, "read_bytes", Int64GetDatum(queue.bytes));
	row_set(row, "writes", Int64GetDatum(queue.writes));
	row_set(row, "write_bytes", Int64GetDatum(queue.written_bytes));
	row_set(row, "in_progress", Int64GetDatum(in_progress));
	row_set(row, "queued", Int64GetDatum(queue.in_flight - in_progress));
	row_set_if(row, "mean_lateness", queue.by_worker != 0, Float8GetDatum(queue.by_worker > 0 ? queue.lateness_sum / queue.by_worker / 1000.0 : 0));
	row_set_if(row, "max_lateness", queue.by_worker != 0, Float8GetDatum(queue.lateness_max / 1000.0));
}
