package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A meter serves one server the metrics that courses set: of pods, by the order in which they were made, of objects, and of nothing in the
// cluster. Autoscalers of both servers see the same that way, whatever names pods got.
type meter struct {
	server *server
	http   *httptest.Server

	mu     sync.Mutex
	values map[string]map[string][]any // namespace → metric → a value for each pod; null: it has none. Of other objects the first holds.
}

// meterGroups are served by a meter.
var meterGroups = map[string]string{"metrics.k8s.io": "v1beta1", "custom.metrics.k8s.io": "v1beta2", "external.metrics.k8s.io": "v1beta1"}

var meterLists = map[string]string{"metrics.k8s.io": "PodMetricsList", "custom.metrics.k8s.io": "MetricValueList",
	"external.metrics.k8s.io": "ExternalMetricValueList"}

const meterSpace = "compare-metrics"

// newMeter serves metrics at an address that the server reaches, and registers them there.
func newMeter(ctx context.Context, s *server, address string) (*meter, error) {
	m := &meter{server: s, values: map[string]map[string][]any{}}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	m.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: m}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	m.http.StartTLS()
	port := l.Addr().(*net.TCPAddr).Port
	service := map[string]any{"name": "meter", "namespace": meterSpace, "port": 443}
	type object struct {
		path string
		body map[string]any
	}
	list := []object{
		{"/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": meterSpace}}},
		{"/api/v1/namespaces/" + meterSpace + "/services", map[string]any{"metadata": map[string]any{"name": "meter"},
			"spec": map[string]any{"ports": []any{map[string]any{"port": 443, "targetPort": port}}}}},
		{"/apis/discovery.k8s.io/v1/namespaces/" + meterSpace + "/endpointslices", map[string]any{"metadata": map[string]any{"name": "meter",
			"labels": map[string]any{"kubernetes.io/service-name": "meter"}}, "addressType": "IPv4", "ports": []any{map[string]any{"port": port}},
			"endpoints": []any{map[string]any{"addresses": []any{address}}}}},
	}
	for group, version := range meterGroups {
		list = append(list, object{"/apis/apiregistration.k8s.io/v1/apiservices", map[string]any{
			"metadata": map[string]any{"name": version + "." + group}, "spec": map[string]any{"group": group, "version": version,
				"service": service, "insecureSkipTLSVerify": true, "groupPriorityMinimum": 100, "versionPriority": 100}}})
	}
	for _, o := range list {
		if got := s.ask(ctx, trial{method: "POST", path: o.path, content: jsonType}, encode(o.body)); got.code >= 300 {
			log.Printf("%s: %s: %s", s.url, o.path, gist(got))
		}
	}
	return m, nil
}

// stop ends the meter and takes back what was registered.
func (m *meter) stop(ctx context.Context) {
	for group, version := range meterGroups {
		m.server.ask(ctx, trial{method: "DELETE", path: "/apis/apiregistration.k8s.io/v1/apiservices/" + version + "." + group}, nil)
	}
	m.server.ask(ctx, trial{method: "DELETE", path: "/api/v1/namespaces/" + meterSpace}, nil)
	m.http.Close()
}

// set gives metrics of a namespace values.
func (m *meter) set(ns string, values map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values[ns] == nil {
		m.values[ns] = map[string][]any{}
	}
	for name, v := range values {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		m.values[ns][name] = list
	}
}

func (m *meter) value(ns, metric string) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.values[ns][metric])
}

// ServeHTTP implements http.Handler.
func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	part := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // apis GROUP VERSION namespaces NS …
	var items []any
	switch {
	case len(part) == 3 && part[0] == "apis":
		_, _ = w.Write(encode(map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": part[1] + "/" + part[2],
			"resources": []any{}}))
		return
	case len(part) < 6:
		http.NotFound(w, r)
		return
	case part[1] == "metrics.k8s.io":
		items = m.uses(r, part[4])
	case part[1] == "external.metrics.k8s.io":
		items = m.single(part[4], part[5])
	case len(part) == 8 && part[6] == "*":
		items = m.each(r, part[4], part[7])
	default:
		items = m.single(part[4], part[len(part)-1])
	}
	if items == nil && part[1] != "metrics.k8s.io" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
			"message": "the meter has no metric " + part[len(part)-1]}))
		return
	}
	_, _ = w.Write(encode(map[string]any{"kind": meterLists[part[1]], "apiVersion": part[1] + "/" + part[2],
		"metadata": map[string]any{}, "items": items}))
}

// pods are the names of the pods that a request selects, in the order in which they were made.
func (m *meter) pods(r *http.Request, ns string) (names []string) {
	path := "/api/v1/namespaces/" + ns + "/pods?labelSelector=" + url.QueryEscape(r.URL.Query().Get("labelSelector"))
	list := m.server.list(r.Context(), path)
	slices.SortFunc(list, func(a, b map[string]any) int {
		return strings.Compare(madeAt(a), madeAt(b))
	})
	for _, pod := range list {
		names = append(names, word(pod, "metadata", "name"))
	}
	return names
}

func madeAt(pod map[string]any) string {
	return word(pod, "metadata", "creationTimestamp") + word(pod, "metadata", "name")
}

func moment() string { return time.Now().UTC().Format(time.RFC3339) }

// uses are the CPU and memory of pods. A pod without a value of either is left out.
func (m *meter) uses(r *http.Request, ns string) (items []any) {
	usage := map[string][]any{"cpu": m.value(ns, "cpu"), "memory": m.value(ns, "memory")}
	for i, name := range m.pods(r, ns) {
		use := map[string]any{}
		for resource, list := range usage {
			if len(list) > 0 && list[i%len(list)] != nil {
				use[resource] = list[i%len(list)]
			}
		}
		if len(use) == 0 {
			continue
		}
		items = append(items, map[string]any{"metadata": map[string]any{"name": name, "namespace": ns}, "timestamp": moment(), "window": "1s",
			"containers": []any{map[string]any{"name": "c", "usage": use}}})
	}
	return items
}

// each are the values of a custom metric of pods.
func (m *meter) each(r *http.Request, ns, metric string) (items []any) {
	list := m.value(ns, metric)
	if list == nil {
		return nil
	}
	items = []any{}
	for i, name := range m.pods(r, ns) {
		if v := list[i%len(list)]; v != nil {
			items = append(items, custom(metric, name, v))
		}
	}
	return items
}

// single is the value of a metric of one object, or of none.
func (m *meter) single(ns, metric string) []any {
	list := m.value(ns, metric)
	if list == nil {
		return nil
	}
	if list[0] == nil {
		return []any{}
	}
	return []any{custom(metric, "o", list[0])}
}

func custom(metric, name string, value any) map[string]any {
	return map[string]any{"metricName": metric, "metric": map[string]any{"name": metric},
		"describedObject": map[string]any{"kind": "Pod", "name": name}, "timestamp": moment(), "windowSeconds": 1, "value": value}
}

// measured does a step MEASURE: its body has the values of metrics in the course's namespace.
func measured(meters []*meter, ns string, body any) error {
	values, ok := body.(map[string]any)
	if !ok {
		return fmt.Errorf("MEASURE takes metrics and their values, not %s", encode(body))
	}
	for _, m := range meters {
		m.set(ns, values)
	}
	return nil
}
