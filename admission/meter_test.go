package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestMeter: plugins are counted by the operations that they look at, and a request once for each of its passes.
func TestMeter(t *testing.T) {
	ask := func(_ context.Context, r *Request) error {
		if r.Name == "bad" {
			return errors.New("no")
		}
		r.Again = r.Name == "again"
		return nil
	}
	reg := prometheus.NewRegistry()
	c := Chain{{Name: "LimitRanger", Mutate: ask, Validate: ask}, {Name: "Own", Validate: ask}}
	m := NewMeter(c, reg)
	for _, r := range []*Request{{Op: Create, Name: "x"}, {Op: Create, Name: "again"}, {Op: Create, Name: "bad"}, {Op: Delete, Name: "x"},
		{Op: Connect, Name: "x"}} {
		r.Meter = m
		if c.Mutate(t.Context(), r) == nil {
			_ = c.Validate(t.Context(), r)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, s := range f.Metric {
			line := strings.TrimPrefix(f.GetName(), "apiserver_admission_")
			for _, l := range s.Label {
				line += " " + l.GetValue()
			}
			got = append(got, line+" "+strings.Repeat("I", int(s.Histogram.GetSampleCount())))
		}
	}
	const plugin, step = "controller_admission_duration_seconds", "step_admission_duration_seconds"
	want := []string{plugin + " LimitRanger CREATE false admit III", plugin + " LimitRanger CREATE false validate II",
		plugin + " LimitRanger CREATE true admit I", plugin + " Own CREATE false validate II", plugin + " Own DELETE false validate I",
		step + " CONNECT false admit I", step + " CONNECT false validate I", step + " CREATE false admit II", step + " CREATE false validate II",
		step + " CREATE true admit I", step + " DELETE false admit I", step + " DELETE false validate I"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	var bounds []float64
	for _, b := range families[0].Metric[0].Histogram.Bucket {
		bounds = append(bounds, b.GetUpperBound())
	}
	if !slices.Equal(bounds, []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5}) || families[0].GetType() != dto.MetricType_HISTOGRAM {
		t.Errorf("buckets %v", bounds)
	}
	var none *Meter
	none.pass(admit, Create, nil, none.plugin(0, "x", admit, Create, nil, none.begin()))
}

func BenchmarkMeter(b *testing.B) {
	c := make(Chain, 20)
	for i := range c {
		c[i] = Plugin{Name: "x", Mutate: func(context.Context, *Request) error { return nil }}
	}
	r := &Request{Op: Create, Meter: NewMeter(c, prometheus.NewRegistry())}
	for b.Loop() {
		_ = c.Mutate(b.Context(), r)
	}
}
