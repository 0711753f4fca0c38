package fair

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const subsystem = "apiserver_flowcontrol_"

// counts are the metrics of one schema in one level.
type counts struct {
	inQueue, seatsInQueue *atomic.Int64
	served, seatsInUse    *atomic.Int64
	dispatched            prometheus.Counter
	rejected              map[Refusal]prometheus.Counter
	waited, gaveUp        prometheus.Histogram
	duration, width       prometheus.Histogram
}

var (
	waitBuckets  = []float64{0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30}
	widthBuckets = []float64{1, 2, 4, 10}
)

func newCounts(level, schema string) counts {
	labels := func(more ...string) prometheus.Labels {
		l := prometheus.Labels{"priority_level": level, "flow_schema": schema}
		for i := 0; i+1 < len(more); i += 2 {
			l[more[i]] = more[i+1]
		}
		return l
	}
	histogram := func(name, help string, buckets []float64, more ...string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: subsystem + name, Help: help, Buckets: buckets,
			ConstLabels: labels(more...)})
	}
	c := counts{inQueue: new(atomic.Int64), seatsInQueue: new(atomic.Int64), served: new(atomic.Int64), seatsInUse: new(atomic.Int64),
		rejected: map[Refusal]prometheus.Counter{},
		dispatched: prometheus.NewCounter(prometheus.CounterOpts{Name: subsystem + "dispatched_requests_total",
			Help: "Requests that were served.", ConstLabels: labels()}),
		waited:   histogram("request_wait_duration_seconds", "Time that requests waited in a queue.", waitBuckets, "execute", "true"),
		gaveUp:   histogram("request_wait_duration_seconds", "Time that requests waited in a queue.", waitBuckets, "execute", "false"),
		duration: histogram("request_execution_seconds", "Time that requests had their seats.", waitBuckets, "type", "regular"),
		width:    histogram("work_estimated_seats", "Seats that requests took.", widthBuckets),
	}
	for _, why := range []Refusal{QueueFull, ConcurrencyLimit, TimeOut, Cancelled} {
		c.rejected[why] = prometheus.NewCounter(prometheus.CounterOpts{Name: subsystem + "rejected_requests_total",
			Help: "Requests that were refused.", ConstLabels: labels("reason", string(why))})
	}
	return c
}

// entered notes what became of a request.
func (c *counts) entered(from, to time.Time, err error) {
	if err == nil {
		c.dispatched.Inc()
		c.waited.Observe(to.Sub(from).Seconds())
		return
	}
	if why, ok := err.(Refusal); ok {
		c.rejected[why].Inc()
	}
	c.gaveUp.Observe(to.Sub(from).Seconds())
}

// take notes that a request has got its seats, or with -1 that it gave them back.
func (c *counts) take(sign int64, seats int) {
	c.served.Add(sign)
	c.seatsInUse.Add(sign * int64(seats))
}

func (c *counts) collect(ch chan<- prometheus.Metric) {
	for _, m := range []prometheus.Metric{c.dispatched, c.waited, c.gaveUp, c.duration, c.width} {
		ch <- m
	}
	for _, m := range c.rejected {
		ch <- m
	}
}

func levelDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(subsystem+name, help, append([]string{"priority_level"}, labels...), nil)
}

// Describe implements prometheus.Collector. What there is depends on the objects, so nothing is promised.
func (f *Fair) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *Fair) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	queued := levelDesc("current_inqueue_requests", "Requests that wait.", "flow_schema")
	queuedSeats := levelDesc("current_inqueue_seats", "Seats that requests wait for.", "flow_schema")
	served := levelDesc("current_executing_requests", "Requests that are served.", "flow_schema")
	seatsInUse := levelDesc("current_executing_seats", "Seats in use.", "flow_schema")
	for _, x := range f.plan.Load().flows {
		x.collect(ch)
		gauge(queued, float64(x.inQueue.Load()), x.level.name, x.schema)
		gauge(queuedSeats, float64(x.seatsInQueue.Load()), x.level.name, x.schema)
		gauge(served, float64(x.served.Load()), x.level.name, x.schema)
		gauge(seatsInUse, float64(x.seatsInUse.Load()), x.level.name, x.schema)
	}
	gauges := levelGauges()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.levels {
		l.mu.Lock()
		for _, g := range gauges {
			gauge(g.desc, g.value(l), l.name)
		}
		l.mu.Unlock()
	}
}

type levelGauge struct {
	desc  *prometheus.Desc
	value func(l *level) float64
}

func levelGauges() []levelGauge {
	return []levelGauge{
		{levelDesc("nominal_limit_seats", "Seats by the level's shares."), func(l *level) float64 { return float64(l.nominal) }},
		{levelDesc("lower_limit_seats", "Seats that are not lent."), func(l *level) float64 { return float64(l.least) }},
		{levelDesc("upper_limit_seats", "Seats with all that can be borrowed."), func(l *level) float64 { return float64(l.largest) }},
		{levelDesc("current_limit_seats", "Seats that the level has now."), func(l *level) float64 { return float64(l.current) }},
		{levelDesc("demand_seats_high_watermark", "Most seats wanted in the last period."), func(l *level) float64 { return l.stats.high }},
		{levelDesc("demand_seats_average", "Seats wanted in the last period."), func(l *level) float64 { return l.stats.mean }},
		{levelDesc("demand_seats_stdev", "Their standard deviation."), func(l *level) float64 { return l.stats.deviation }},
		{levelDesc("demand_seats_smoothed", "Seats wanted, smoothed over periods."), func(l *level) float64 { return l.smoothed }},
		{levelDesc("current_r", "Virtual time of the level's queues."), func(l *level) float64 { return l.r }},
	}
}
