package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A yardstick is a figure to compare with: upstream's on the same two cores, and the goal of kloop.
// Zero means there is none.
type yardstick struct {
	upstream, target float64
	more             bool // more is better
}

// yardsticks by name of figure, without the label; "name|label" wins over "name".
var yardsticks = map[string]yardstick{
	"API ready (ms)| (etcd)":                          {3400, 400, false},
	"API ready (ms)| (memory)":                        {3400, 100, false},
	"idle memory (MiB)":                               {477, 80, false},
	"idle CPU (% of a core)| (etcd)":                  {4.4, 1, false},
	"idle CPU (% of a core)| (memory)":                {4.4, 0.3, false},
	"create ConfigMaps, 64-way (/s)":                  {1336, 5000, true},
	"create Pods, 64-way (/s)":                        {740, 3000, true},
	"create ConfigMaps, server CPU (ms)":              {1.3, 0, false},
	"create Pods, server CPU (ms)":                    {2.3, 0, false},
	"GET, 1-way, median (ms)":                         {1.6, 0, false},
	"GET, server CPU (ms)":                            {0.9, 0.1, false},
	"LIST of pods, protobuf, warm (ms)":               {190, 20, false},
	"LIST of pods, JSON, warm (ms)":                   {420, 40, false},
	"kubectl why, exec to the answer, median (ms)":    {0, 2000, false},
	"kubectl why, memory (MiB)":                       {0, 200, false},
	"watch events (/s)":                               {22_000, 200_000, true},
	"watch, server CPU an event (µs)":                 {47, 0, false},
	"apply a Deployment, change, 16-way (/s)":         {0, 2000, true},
	"create custom resources with rules, 64-way (/s)": {450, 3000, true},
	"custom resources, memory of wire size (times)":   {7, 1.5, false},
	"definitions, all served (s)":                     {0, 5, false},
	"definitions, memory of each (MiB)":               {6, 0.3, false},
	"deployment all Ready (s)":                        {77, 5, false},
	"deployment, server CPU (s)":                      {114, 0, false},
	"pods made and bound (/s)":                        {157, 2500, true},
	"waiting pods bound (/s)":                         {157, 2500, true},
	"namespace gone (s)":                              {10, 0.7, false},
	"pod beyond the raw runtime (ms)":                 {0, 50, false},
	"100 pods all Running (s)":                        {0, 20, false},
	"rate of the raw runtime's (%)":                   {0, 90, true},
	"100 pods gone, beyond their grace (s)":           {0, 5, false},
	"idle CPU of 250 pods (% of a core)":              {0, 1, false},
	"idle memory of a pod (MiB)":                      {0, 0.2, false},

	"restart with 110 pods, exec to all observed (s)": {0, 1, false},
}

// A line is one figure.
type line struct {
	name, label, unit string
	value             float64
}

// A report collects figures.
type report struct {
	lines []line
	pairs []pair
}

func (r *report) add(name, label string, value float64, unit string) {
	r.lines = append(r.lines, line{name, label, unit, value})
	fmt.Printf("  %-46s %s\n", head(name, unit)+label, number(value))
}

func head(name, unit string) string { return name + " (" + unit + ")" }

// number shows three digits or more.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// table prints all figures beside their yardsticks.
func (r *report) table(w io.Writer) {
	if len(r.lines) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tmeasured\tupstream\ttimes better\ttarget\treached")
	for _, l := range r.lines {
		name := head(l.name, l.unit)
		y, ok := yardsticks[name+"|"+l.label]
		if !ok {
			y = yardsticks[name]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name+l.label, number(l.value), strings.Join(y.compare(l.value), "\t"))
	}
	t.Flush()
}

// compare is upstream's figure, how much better this one is, the target, and whether it is reached.
func (y yardstick) compare(v float64) []string {
	out := []string{"", "", "", ""}
	if y.upstream > 0 && v > 0 {
		ratio := y.upstream / v
		if y.more {
			ratio = v / y.upstream
		}
		out[0], out[1] = number(y.upstream), number(ratio)
	}
	if y.target > 0 {
		out[2], out[3] = number(y.target), "no"
		if v <= y.target && !y.more || v >= y.target && y.more {
			out[3] = "yes"
		}
	}
	return out
}

// times are latencies.
type times []time.Duration

// at is a percentile, in milliseconds; p from 0 to 1.
func (t times) at(p float64) float64 {
	if len(t) == 0 {
		return 0
	}
	slices.Sort(t)
	return t[min(int(p*float64(len(t))), len(t)-1)].Seconds() * 1000
}

// show prints the percentiles.
func (t times) show() {
	fmt.Printf("  latency ms: p50 %s  p90 %s  p99 %s  max %s\n", number(t.at(0.5)), number(t.at(0.9)), number(t.at(0.99)), number(t.at(1)))
}
