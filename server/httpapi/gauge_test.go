package httpapi_test

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/server/httpapi"
)

type configuration = httpapi.Config

// gauge sums the samples of a metric.
func gauge(w *world, name string) (sum float64) {
	w.t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(w.must("GET", "/metrics", "", 200).body))
	for lines.Scan() {
		metric, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(metric, name+"{") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}
